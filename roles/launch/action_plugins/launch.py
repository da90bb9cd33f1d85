"""Start, tail and end one node's part of a run, from the control node.

One task of one play is one cell: Ansible runs this plugin once a host, each in its own process,
and each reads its node's slice of run.json here on the control node, so that what runs never
passes through a template or a shell. `node/supervisor` does the work on the
node; docs/architecture.md has the protocol. The plugins of one run meet in the run's folder:

    nodes/<rank>-<host>/prepared   this node is ready; nobody starts before all are
    halt                           first cause, host and time; created exclusively, ends the run
    progress                       touched when any node's log grew: when it rests, the run stalls
    nodes/<rank>-<host>/done.json  how this node ended

Variables that are secret stand in no file: run.json has their names, and the inventory, read here,
has their values.

Whatever happens on a node comes back as data, never as failed or unreachable: one bad node must
not drop a host from the play.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node.causes import Cause, EndedBy
from node.schema import UnfitError, unfit
from node.sent import FILE as MODULES
from node.supervisor import kinds
from node.supervisor.news import EVENTS_BYTES, FETCH_BYTES
from plugins.brought import BroughtLog
from plugins.node_action import NodeAction, one_line, save
from runner.base.shape import read
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.endings import Ending
from runner.terms.inspected import ENV

if TYPE_CHECKING:
    from node.schema import Kind

RETRY_S = 0.5  # between two tries to reach a silent node
SAMPLES_BYTES = 64 * 1024 * 1024  # of samples and stacks that are brought: days of them
FETCH_S = 120.0  # for 8 MiB of a file, at 70 KB/s and more
OVERDUE_S = 15.0  # patience with a supervisor beyond every limit that it was given
PREPARE_S = 300.0  # for a node to say what it is, or to prepare: large folders are removed there
BARRIER_S = 600.0  # for all nodes to be prepared, which end by themselves long before
STOP_S = 600.0  # for all runs of a node to end
BARRIER_RENEW_S = 2.0  # renew the lease this often while others still prepare
WAITING_POLL_S = 1.0  # of a node that starts nothing: it is to end soon after those that do
# What goes wrong with an answer: no connection, no program, no JSON, no bytes; a full disk here.
BROKEN = (AnsibleError, OSError, ValueError)


class RefusalError(Exception):
    """The node answered, and said no; the message is a sentence."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class LostError(Exception):
    """The node could not be reached, or stopped answering for lost_contact_s."""


class ActionModule(NodeAction):
    """`launch:` with `run_dir`, `lock` and `holder`, or `operation: inspect|stop|reveal`."""

    _supports_check_mode = False
    default_python = "python3"

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        host = str(variables["inventory_hostname"])
        operation = arguments.get("operation", "launch")
        if operation == "inspect":
            return self._inspect(Path(arguments["out_dir"]), host, str(arguments["asked"]))
        if operation == "stop":
            return self._stop(str(arguments["runs"]))
        if operation == "reveal":
            given = variables.get("cluster_env") or {}
            return self._reveal(Path(arguments["file"]), arguments["names"], given)
        run_dir, lock = Path(arguments["run_dir"]), Path(arguments["lock"])
        holder, secrets = str(arguments["holder"]), variables.get("cluster_env") or {}
        try:
            return Launch(self, run_dir, lock, holder, host, secrets).run()
        except Exception as error:
            words = f"{host}: {type(error).__name__}: {one_line(error)}"
            RunFolder(run_dir).ask_to_halt(Cause.LAUNCH_ERROR, words, host)
            return {"changed": True, "ended_by": EndedBy.ERROR}

    def _inspect(self, out_dir: Path, host: str, packed: str) -> dict[str, Any]:
        self.patience_s = PREPARE_S
        asked = json.loads(base64.b64decode(packed))
        kind = kinds.inspected(asked["paths"], ENV, [*asked["folders"], *asked["pythons"]])
        try:
            facts = self.ask("supervisor.inspection:inspect", asked, kind)
        except (AnsibleConnectionFailure, AnsibleError, UnfitError) as error:
            facts = {"unreachable": one_line(error)}
        save(out_dir / names.of_host(host), facts)
        return {"changed": False}

    def _stop(self, runs: str) -> dict[str, Any]:
        self.patience_s = STOP_S
        spec = {"runs": runs, "patience_s": 30.0}
        facts = self.ask("supervisor.stopping:stop_all", spec, kinds.STOPPED)
        return {"changed": bool(facts["ended"]), "ended": facts["ended"]}

    def _reveal(self, file: Path, wanted: list[str], given: dict[str, Any]) -> dict[str, Any]:
        """Hand the runner the values of its secrets: through its own memory, and nowhere else.

        What cannot be read is told by name, without Ansible's words, which may hold a value.
        """
        found: dict[str, dict[str, str]] = {"values": {}, "refused": {}}
        for name in wanted:
            try:
                found["values"][name] = self.value_of(name, given)
            except RefusalError as refusal:
                found["refused"][name] = str(refusal)
            except Exception as error:
                found["refused"][name] = f"{name} cannot be read ({type(error).__name__})"
        with file.open("w", encoding="utf-8") as stream:
            json.dump(found, stream)
        return {"changed": False}

    def value_of(self, name: str, given: dict[str, Any]) -> str:
        """Return a variable's value as the inventory means it: a vault or a lookup may hold it."""
        if given.get(name) is None:
            raise RefusalError(
                Cause.MISSING, f"cluster_env of the inventory has no {name} any more"
            )
        return str(self._templar.template(given[name]))


class Launch:
    """One node's part of one run."""

    def __init__(
        self,
        action: ActionModule,
        run_dir: Path,
        lock: Path,
        holder: str,
        host: str,
        variables: dict[str, Any],
    ) -> None:
        self.action = action
        self.run_folder = RunFolder(run_dir)
        self.lock = lock
        self.holder = holder  # what the bench that began this run wrote into its lock
        orders = self.run_folder.orders
        assert orders is not None  # bench writes run.json before it starts the play
        # Each node's folder here, by rank; nodes that only wait for others end after `launchers`.
        folders = [self.run_folder.node(node.node_rank) for node in orders.nodes]
        self.prepared = [folder / names.PREPARED for folder in folders]
        self.launchers = [
            folder / names.DONE
            for folder, node in zip(folders, orders.nodes, strict=True)
            if not node.waits
        ]
        self.node = next(node for node in orders.nodes if node.host == host)
        self.limits = orders.limits
        self.secrets = orders.secrets
        self.variables = variables  # cluster_env as the inventory has it, templates and all
        self.host = host
        self.folder = self.run_folder.node(self.node.node_rank)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.job = {**orders.job(self.node), "mark": mark_of(run_dir / names.RUN)}
        # Long enough to be cheap on hundreds of nodes, short enough to end a run soon.
        # The lease is renewed between polls: three of them fit into it.
        longest = min(8.0, self.limits.lost_contact_s / 3)
        self.wait_s = min(max(len(self.prepared) / 50, 1.0), longest)
        if self.node.waits:
            self.wait_s = min(WAITING_POLL_S, longest)
        part = self.folder / names.PART
        self.log = BroughtLog(self.folder / names.LOG, part, self.limits.log_cap_bytes)
        self.sampled = 0  # bytes of samples that were brought
        self.contact = time.monotonic()
        self.progress = run_dir / names.PROGRESS
        self.grown = (0, self.contact)  # the mtime of progress, and when it was seen to change

    def run(self) -> dict[str, Any]:
        """Prepare, wait for the others, start, tail, end; the outcome as data."""
        try:
            self.prepare()
            done = self.follow()
            self.complete(done)
            self.close(done)
        except RefusalError as refusal:
            done = {"ended_by": EndedBy.REFUSED, "cause": refusal.cause, "message": str(refusal)}
            self.halt(refusal.cause, f"{self.host}: {refusal}")
        except LostError as loss:
            done = {"ended_by": EndedBy.LOST, "cause": Cause.NODE_LOST, "message": str(loss)}
            self.halt(Cause.NODE_LOST, f"{self.host}: {loss}")
        except UnfitError as error:
            done = {"ended_by": EndedBy.ERROR, "cause": Cause.BAD_ANSWER, "message": str(error)}
            self.halt(Cause.BAD_ANSWER, f"{self.host}: {error}")
        except Exception as error:
            words = one_line(error)
            words = words if isinstance(error, BROKEN) else f"{type(error).__name__}: {words}"
            done = {"ended_by": EndedBy.ERROR, "cause": Cause.LAUNCH_ERROR, "message": words}
            self.halt(Cause.LAUNCH_ERROR, f"{self.host}: {words}")
        with contextlib.suppress(OSError):  # a full disk here must not drop the host either
            save(self.folder / names.DONE, done)
        return {"changed": True, "ended_by": done.get("ended_by")}

    # -- steps ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Check the node and leave its daemon, or say why not; then wait for every other node."""
        began = time.time()
        job = {**self.job, "secrets": self.reveal()}
        self.action.patience_s = PREPARE_S
        try:
            facts = self.action.ask("supervisor.preparation:prepare", job, kinds.PREPARED)
        except AnsibleConnectionFailure as error:
            words = f"cannot be reached: {one_line(error)}"
            raise RefusalError(Cause.UNREACHABLE, words) from error
        if "refused" in facts:
            raise RefusalError(facts["refused"], facts["message"])
        # The node's clock against ours, by the middle of the round trip (seconds).
        offset_s = facts["now"] - (began + time.time()) / 2
        told = {"boot_id": facts["boot_id"], "noted": facts.get("noted", [])}
        save(self.folder / names.PREPARED, {"clock_offset_s": offset_s, **told})
        self.contact = renewed = waits = time.monotonic()
        waiting = self.prepared
        while not self.halted():
            waiting = [path for path in waiting if not path.exists()]
            if not waiting:
                return
            if time.monotonic() - waits > BARRIER_S:
                late = ", ".join(path.parent.name for path in waiting[:4])
                words = f"{late} did not prepare the run within {BARRIER_S:g} s"
                raise RefusalError(Cause.LAUNCH_ERROR, words)
            if time.monotonic() - renewed > BARRIER_RENEW_S:
                self.poll(go=False, wait_s=0.0)
                renewed = time.monotonic()
            time.sleep(min(0.005 * max(1.0, len(self.prepared) / 8), 0.2))

    def reveal(self) -> dict[str, str]:
        """The secret variables' values."""
        return {name: self.action.value_of(name, self.variables) for name in self.secrets}

    def follow(self) -> dict[str, Any]:
        """Poll until the node is done. Ends it when the run is halted or the runner is gone."""
        go = True
        # What came before was no silence of the trainer's.
        self.grown = (self.grown[0], time.monotonic())
        # The node ends a run at its time limit; this is for a node that answers and does not.
        limits = self.limits
        patience_s = limits.time_limit_s + limits.grace_s + limits.lost_contact_s + OVERDUE_S
        overdue = time.monotonic() + patience_s
        while True:
            reason = self.halted()
            if time.monotonic() > overdue:
                raise LostError("its supervisor does not end the run")
            began = time.monotonic()
            answer = self.poll(go=go and not reason, wait_s=self.wait_s, stop=reason)
            go = False
            self.log.add(answer["offset"], answer["data"])
            self.sample(answer["samples"])
            self.look_for_a_stall(grew=bool(answer["data"]))
            if answer["done"] is not None:
                return self.ended(answer)
            # One that answers at once, and has not ended, is not asked the more often for it.
            time.sleep(max(0.0, began + self.wait_s - time.monotonic()))

    def ended(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return what done.json is to hold, by the last poll's answer."""
        done: dict[str, Any] = answer["done"]
        done["log_bytes"] = answer["size"]
        done["files"] = {name: size for name, size in answer["files"].items() if fetchable(name)}
        if strange := len(answer["files"]) - len(done["files"]):
            done["others"] = f"incomplete: {strange} files are not called as event files are"
        ending = read(Ending, done)
        if not ending.well:
            self.halt(ending.cause, f"{self.host}: {ending.words}")
        return done

    def sample(self, data: bytes) -> None:
        """Write down the samples that a poll brought, for the live view and the record."""
        if data and self.sampled < SAMPLES_BYTES:
            with (self.folder / names.SAMPLES).open("ab") as stream:
                stream.write(data)
            self.sampled += len(data)

    def look_for_a_stall(self, *, grew: bool) -> None:
        """End a run of which no node printed anything for stall_limit_s.

        Most nodes print nothing for the whole of a run, so the newest line of all of them counts.
        """
        if grew:
            self.progress.touch()
        stamp, since = self.grown
        with contextlib.suppress(OSError):
            stamp = self.progress.stat().st_mtime_ns
        if stamp != self.grown[0]:
            since = time.monotonic()
        self.grown = (stamp, since)
        limit_s = self.limits.stall_limit_s
        if time.monotonic() - since > limit_s:
            self.halt(Cause.STALLED, f"no node printed anything for {limit_s:g} s (stall_limit_s)")

    def over(self) -> bool:
        """Whether this node only waits for others, and they have ended."""
        return self.node.waits and all(path.exists() for path in self.launchers)

    def poll(self, *, go: bool, wait_s: float, stop: str = "") -> dict[str, Any]:
        """One poll, written down in timeline.jsonl."""
        known = {"offset": self.log.offset, "sampled": self.sampled}
        spec = {**known, "wait_s": wait_s, "go": go, "stop": stop, "over": self.over()}
        self.action.patience_s = wait_s + self.limits.lost_contact_s
        answer, sent = self.ask("news:poll", spec, kinds.POLLED)
        entry = {"sent": sent, "received": time.time(), "node": answer["now"]}
        with (self.folder / names.TIMELINE).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({**entry, "log_bytes": answer["size"]}) + "\n")
        return answer

    def ask(self, entry: str, spec: dict[str, Any], kind: Kind) -> tuple[dict[str, Any], float]:
        """The supervisor's answer, and when it was asked; LostError after lost_contact_s."""
        folder = self.job["dir"]
        spec, file = {**spec, "folder": folder}, f"{folder}/{MODULES}"
        while True:
            sent = time.time()
            try:
                answer = self.action.ask(f"supervisor.{entry}", spec, kind, file)
            except AnsibleConnectionFailure as error:
                silent = time.monotonic() - self.contact
                if silent > self.limits.lost_contact_s:
                    words = f"out of contact for {silent:.0f} s ({one_line(error)})"
                    raise LostError(words) from error
                time.sleep(RETRY_S)
                continue
            self.contact = time.monotonic()
            return answer, sent

    def complete(self, done: dict[str, Any]) -> None:
        """Bring what the polls did not: the log up to its cap, samples, stacks, event files.

        How the node's launcher ended is known by now. So what cannot be brought is only noted, in
        done's `log` for the log, in its `others` for the rest.
        """
        self.action.patience_s = FETCH_S
        try:
            self.log.complete(done["log_bytes"], lambda at, most: self.fetch(names.LOG, at, most))
        except (LostError, *BROKEN) as error:
            done["log"] = f"incomplete: {one_line(error)}"
        try:
            left = EVENTS_BYTES
            for name, size in done["files"].items():
                events = name.startswith(names.EVENTS)
                self.bring(name, min(size, left if events else SAMPLES_BYTES))
                left -= size if events else 0
        except (LostError, *BROKEN) as error:
            done["others"] = f"incomplete: {one_line(error)}"

    def bring(self, name: str, size: int) -> None:
        """Bring the rest of a file of the node's run folder."""
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("ab") as stream:
            while stream.tell() < size:
                stream.write(self.fetch(name, stream.tell(), size - stream.tell()))

    def close(self, done: dict[str, Any]) -> None:
        """All was brought: a run that ended well needs no folder on the node any more."""
        sizes = {names.LOG: done["log_bytes"], **done["files"]}
        whole = not done.get("log") and not done.get("others")
        whole = whole and all(size_of(self.folder / name) == size for name, size in sizes.items())
        well = (
            whole and read(Ending, done).well and not (self.run_folder.path / names.HALT).exists()
        )
        done["kept"] = True
        with contextlib.suppress(LostError, *BROKEN):  # a result is none the worse for it
            answer, _ = self.ask("folders:close", {"keep": not well}, kinds.CLOSED)
            done["kept"] = not answer["removed"]

    def fetch(self, name: str, offset: int, length: int) -> bytes:
        """Return bytes of a file from `offset`: `length`, or 8 MiB of them.

        Raises UnfitError for more or fewer, so that a file's size says how often it is asked for.
        """
        length = min(length, FETCH_BYTES)
        spec = {"name": name, "offset": offset, "length": length}
        data: bytes = self.ask("news:fetch", spec, kinds.FETCHED)[0]["data"]
        if len(data) != length:
            raise unfit(f"the answer to fetch: {name}", f"ends at byte {offset + len(data)}")
        return data

    # -- the run's folder ----------------------------------------------------------------------

    def halted(self) -> str:
        """Why the run is to end, or an empty string."""
        if not self.controlled():
            self.halt(Cause.CONTROL_LOST, "the process that ran bench is gone")
        halt = self.run_folder.halt
        return halt.cause if halt else ""

    def halt(self, cause: Cause, message: str) -> None:
        """Say first why the run ends; whoever comes later leaves it as it is."""
        self.run_folder.ask_to_halt(cause, message, self.host)

    def controlled(self) -> bool:
        """Whether the bench that began this run lives: it holds its lock, and no later bench does.

        A lock that cannot be asked is taken for held.
        """
        try:
            with self.lock.open("rb") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return handle.read() == self.holder.encode()
        except OSError:
            return True
        return False


def mark_of(planned: Path) -> str:
    """What marks the run's processes on every node: no other run.json gives the same.

    One mark for all nodes, since a launcher on one may start processes on the others; and plain
    letters, since such a launcher may pass it through a shell.
    """
    facts = f"{planned.resolve()} {planned.stat().st_mtime_ns} {platform.node()}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


def fetchable(name: str) -> bool:
    """Whether a name that a node answered is one of a file beside its log, and of nothing else."""
    if name in (names.SAMPLES, names.STACKS):
        return True
    parts = name.split("/")
    plain = all(part and not part.startswith(".") and part.isprintable() for part in parts)
    return plain and parts[0] == names.EVENTS and "tfevents" in parts[-1] and len(name) < 1000


def size_of(path: Path) -> int:
    """A file's size in bytes; -1 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1
