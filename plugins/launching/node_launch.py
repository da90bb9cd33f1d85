"""One node's part of a run, from the control node: prepare, start, follow, end.

A thread of each node does this (host_threads.py). `node/supervisor` does the work on the node. The
threads of one run meet in memory (shared_run.py), and write into the run's folder:

    halt                           first cause, host and time; created exclusively, ends the run
    nodes/<rank>-<host>/prepared   this node is ready; nobody starts before all are
    nodes/<rank>-<host>/done.json  how this node ended

Secret variables are in no file: run.json has their names, and the inventory, read here,
has their values.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from node.causes import Cause, EndedBy
from node.schema import UnfitError
from node.supervisor import kinds
from node.supervisor.names import GO, PROGRAMS
from plugins.awake import awake_s
from plugins.launching.action import RefusalError
from plugins.launching.fetched_files import FetchedFiles, fetchable
from plugins.launching.supervisor_client import BROKEN, LostError, SupervisorClient
from plugins.node_action import one_line, save
from plugins.program import bundle
from runner.base.dataclass_schema import read
from runner.base.exclusive import make_private
from runner.folder import names
from runner.folder.endings import Ending

if TYPE_CHECKING:
    from plugins.launching.action import LaunchAction
    from plugins.launching.host_threads import HostThreads
    from plugins.launching.shared_run import SharedRun
    from runner.terms.orders import NodeRun

OVERDUE_S = 15.0  # patience with a supervisor beyond every limit that it was given
PREPARE_S = 300.0  # for a node to prepare: large folders are removed there
PREPARE = "supervisor.preparation:prepare"
BARRIER_S = 600.0  # for all nodes to be prepared, which end by themselves long before
BARRIER_LOOK_S = 0.1  # between two looks whether the run ends before it begins
BARRIER_RENEWALS = 10  # of a lease, in its time, while others still prepare
GO_S = 2.0  # for all other nodes to be told to go
WAITING_POLL_S = 1.0  # of a node that starts nothing: it is to end soon after those that do


def carry_out(pool: HostThreads, shared_run: SharedRun) -> None:
    """Carry out a run on all its nodes."""
    nodes = {node.host: node for node in shared_run.orders.nodes}

    def run_part(action: LaunchAction, host: str) -> None:
        write(shared_run, nodes[host], NodeLaunch(action, shared_run, nodes[host]).run())

    def refused(host: str, reason: str) -> None:
        ending = ended(shared_run, host, EndedBy.ERROR, Cause.LAUNCH_ERROR, reason)
        write(shared_run, nodes[host], ending)

    pool.each(list(nodes), run_part, refused)


def ended(
    shared_run: SharedRun, host: str, by: EndedBy, cause: Cause, reason: str
) -> dict[str, Any]:
    """End the run for what happened on a host; return how its part ended."""
    shared_run.halt(cause, f"{host}: {reason}", host)
    return {"ended_by": by, "cause": cause, "message": reason}


def write(shared_run: SharedRun, node: NodeRun, ending: dict[str, Any]) -> None:
    """Write down how a node's part ended."""
    with contextlib.suppress(OSError):  # a full disk here must not end the play
        save(shared_run.run_folder.node(node.node_rank) / names.DONE, ending)
    shared_run.ended(node)


class NodeLaunch:
    """One node's part of one run."""

    def __init__(self, action: LaunchAction, shared_run: SharedRun, node: NodeRun) -> None:
        self.action, self.shared_run, self.node = action, shared_run, node
        self.host, self.limits = node.host, shared_run.orders.limits
        self.folder = shared_run.run_folder.node(node.node_rank)
        # Below a root that nodes share, each has a folder: they would remove each other's files.
        runs = node.dir.removesuffix(shared_run.orders.run_id)
        programs = f"{runs}{PROGRAMS}/{bundle(PREPARE)[0]}"
        self.job = {**shared_run.orders.job(node), "mark": shared_run.mark, "programs": programs}
        self.patience = shared_run.patience
        self.job["lease_s"] = self.patience.lease_s
        # Long enough to be cheap on hundreds of nodes, short enough to end a run soon.
        # The lease is renewed by each poll: six of them fit into it.
        longest = min(8.0, self.limits.lost_contact_s / 3)
        self.wait_s = min(max(len(shared_run.orders.nodes) / 50, 1.0), longest)
        if node.waits:
            self.wait_s = min(WAITING_POLL_S, longest)
        self.client = SupervisorClient(action, node.dir, shared_run.patience, node.node_rank)
        self.files = FetchedFiles(self.folder, self.client, self.limits.log_cap_bytes)

    def run(self) -> dict[str, Any]:
        """Prepare, wait for the others, start, tail, end; how it ended, as data."""
        try:
            make_private(self.folder)
            self.prepare()
            ending = self.follow()
            self.files.complete(ending)
            well = self.files.whole(ending) and read(Ending, ending).well
            all_well = well and self.shared_run.all_well(self.node, self.limits.lost_contact_s)
            well = well and self.shared_run.run_folder.halt is None
            self.files.close(ending, well=well, all_well=all_well)
        except RefusalError as refusal:
            return self.ended(EndedBy.REFUSED, refusal.cause, str(refusal))
        except LostError as loss:
            return self.ended(EndedBy.LOST, Cause.NODE_LOST, str(loss))
        except UnfitError as error:
            return self.ended(EndedBy.ERROR, Cause.BAD_ANSWER, str(error))
        except Exception as error:
            reason = one_line(error)
            reason = reason if isinstance(error, BROKEN) else f"{type(error).__name__}: {reason}"
            return self.ended(EndedBy.ERROR, Cause.LAUNCH_ERROR, reason)
        return ending

    def ended(self, by: EndedBy, cause: Cause, reason: str) -> dict[str, Any]:
        """End the run for what happened here."""
        return ended(self.shared_run, self.host, by, cause, reason)

    def prepare(self) -> None:
        """Check the node and leave its daemon, or say why not; then wait for every other node."""
        began = time.time()
        try:
            facts = self.ask_to_prepare()
        except AnsibleConnectionFailure as error:
            reason = f"cannot be reached: {one_line(error)}"
            raise RefusalError(Cause.UNREACHABLE, reason) from error
        if "refused" in facts:
            raise RefusalError(facts["refused"], facts["message"])
        # The node's clock against ours, by the middle of the round trip (seconds).
        offset_s = facts["now"] - (began + time.time()) / 2
        facts_kept = {"boot_id": facts["boot_id"], "noted": facts.get("noted", [])}
        save(self.folder / names.PREPARED, {"clock_offset_s": offset_s, **facts_kept})
        self.client.begin()
        renewed = waits = time.monotonic()
        self.shared_run.come(self.node)
        while not self.shared_run.all_came(BARRIER_LOOK_S) and not self.shared_run.halted():
            if time.monotonic() - waits > BARRIER_S:
                reason = f"{self.shared_run.late()} did not prepare the run within {BARRIER_S:g} s"
                raise RefusalError(Cause.LAUNCH_ERROR, reason)
            if time.monotonic() - renewed > self.patience.lease_s / BARRIER_RENEWALS:
                self.poll(go=False, wait_s=0.0)
                renewed = time.monotonic()

    def ask_to_prepare(self) -> dict[str, Any]:
        """Ask by the modules that an earlier run left on the node, where it still has them."""
        job = {**self.job, "secrets": self.reveal()}
        self.action.patience_s = PREPARE_S
        facts: dict[str, Any]
        if self.action.kept == job["programs"]:
            try:
                facts = self.action.ask(PREPARE, job, kinds.PREPARED, job["programs"])
            except AnsibleConnectionFailure:
                raise
            except AnsibleError:  # they were removed
                self.action.kept = ""
            else:
                return facts
        facts = self.action.ask(PREPARE, job, kinds.PREPARED)
        self.action.kept = job["programs"]
        return facts

    def reveal(self) -> dict[str, str]:
        """The secret variables' values; cluster_env as the inventory has it, templates and all."""
        values = self.action.variables.get("cluster_env") or {}
        return {name: self.action.value_of(name, values) for name in self.shared_run.orders.secrets}

    def follow(self) -> dict[str, Any]:
        """Poll until the node is done. Ends it when the run is halted or the runner is gone."""
        go = True
        self.shared_run.hear()  # the time before is not the trainer's silence
        # The node ends a run at its time limit; this is for one that answers but does not end it.
        limits = self.limits
        patience_s = limits.time_limit_s + limits.grace_s + limits.lost_contact_s + OVERDUE_S
        overdue = awake_s() + patience_s
        while True:
            reason = self.shared_run.halted()
            if go and not reason and len(self.shared_run.orders.nodes) > 1:
                self.go()
            began = time.monotonic()
            answer = self.poll(go=go and not reason, wait_s=self.wait_s, stop=reason)
            go = False
            self.files.add(answer)
            self.look_for_a_stall(grew=bool(answer["data"]))
            if answer["done"] is not None:
                return self.done(answer)
            if awake_s() > overdue:
                raise LostError("its supervisor does not end the run")
            # Do not poll more often where a node answers at once.
            time.sleep(max(0.0, began + self.wait_s - time.monotonic()))

    def go(self) -> None:
        """Say go by the shortest command there is, and nothing else before all nodes know.

        So they start at the same time. If it is lost, the first poll repeats it.
        """
        self.action.patience_s = self.patience.silence_s
        with contextlib.suppress(*BROKEN):
            self.action.exchange(["touch", f"{self.node.dir}/{GO}"])
        self.shared_run.gone(self.node, GO_S)

    def done(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return what done.json is to hold, by the last poll's answer."""
        details: dict[str, Any] = answer["done"]
        details["log_bytes"] = answer["size"]
        details["files"] = {name: size for name, size in answer["files"].items() if fetchable(name)}
        if strange := len(answer["files"]) - len(details["files"]):
            details["others"] = f"incomplete: {strange} files do not have event files' names"
        ending = read(Ending, details)
        if not ending.well:
            self.shared_run.halt(ending.cause, f"{self.host}: {ending.words}", self.host)
        return details

    def look_for_a_stall(self, *, grew: bool) -> None:
        """End a run of which no node printed anything for stall_limit_s.

        Most nodes print nothing for the whole of a run, so the newest line of all of them counts.
        """
        if grew:
            self.shared_run.hear()
        limit_s = self.limits.stall_limit_s
        if awake_s() - self.shared_run.heard > limit_s:
            reason = f"no node printed anything for {limit_s:g} s (stall_limit_s)"
            self.shared_run.halt(Cause.STALLED, reason, self.host)

    def poll(self, *, go: bool, wait_s: float, stop: str = "") -> dict[str, Any]:
        """One poll."""
        files = self.files
        progress = {"offset": files.log.offset, "sampled": files.sampled, "arrived": files.arrived}
        orders = {"go": go, "stop": stop, "over": self.shared_run.over(self.node)}
        spec = {**progress, **orders, "wait_s": wait_s, "lease_s": self.patience.lease_s}
        patience_s = wait_s + self.patience.silence_s
        return self.client.ask("polling:poll", spec, kinds.POLLED, patience_s)
