"""One node's part of a run that Slurm started: a task of srun, in the run's shared folder.

    supervisor.task:task    check, meet the others, run, end; done.json says how

run.json is read where bench wrote it, and log, samples and done.json are written where bench reads
them. The nodes of a run meet in its folder; node rank 0 (node/supervisor/rank0.py) picks the port
and says in placement.json who takes part. What only the job knows is a placeholder in run.json,
such as {master_addr}; it is replaced here, as data.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from node import visibility
from node.answer import ProgramError
from node.causes import Cause, EndedBy
from node.compiled import keep
from node.endings import cause_of, ended_well, words_of
from node.files import create_once

from . import chain, node_tasks, orders, own_disk, rank0, scratch, switches
from .answers import RefusedError
from .daemon import enter, hold, lease_lost, watch
from .files import read_json, write
from .guard import guard, release
from .inspection import inspect
from .names import (
    ARRIVALS,
    DONE,
    HALT,
    MEETING,
    PLACEMENT,
    PREPARED,
    RUN,
    SETUP_LOG,
    STARTED,
    SUBMITTED,
    node,
)
from .placeholders import WORD, filled, needs_others
from .preparation import check, lay_out
from .run_folder import limit_log
from .shell_lines import HIDDEN, set_up, take_down
from .slurm_environment import address_of, host_name, take_devices, taken_secrets
from .state import TERMINATED, boot_id, finish
from .stopping import lost_supervisor
from .suspension import Suspension, sentence

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

SENDS = ("node.sampler",)
TERMED = "the supervisor was sent TERM"
TOLD_S = 0.5  # for TERM to come to the supervisor after it came to the launcher
FOLDER_S = 60.0  # for what bench, or node rank 0, has written to show here
LOOK_S = 1.0  # between two looks at what the others share, on few nodes
FLUSH_S = 10.0  # between two times that a node writes its samples to the shared folder
FLUSHES_A_SECOND = 100  # by all nodes of a run
NODES_A_SECOND = 500  # that may look at once, so that a file system serves many nodes


class Task:
    """What a task of srun is told, and what it found."""

    def __init__(self, spec: dict[str, Any]) -> None:
        """Find the run and this node's part of it. Raises ProgramError where they do not fit."""
        self.folder = attempt_folder(spec)
        self.spec = spec
        self.secrets = taken_secrets()
        self.host = host_name()
        self.rank = int(os.environ.get("SLURM_NODEID", "0"))
        run, mine, self.nodes = orders.read(self.folder, self.rank)
        if not mine.get("tasks"):  # of those srun has counted the processes already
            file = spec.get("switches") or ""
            self.rank = switches.rank_of(self.host, self.rank, file, self.nodes)
            run, mine, self.nodes = orders.read(self.folder, self.rank)
        if int(os.environ.get("SLURM_STEP_NUM_NODES", self.nodes)) != self.nodes:
            raise ProgramError(
                "Slurm started this step on %s nodes, but the run needs %d; start it again"
                % (os.environ["SLURM_STEP_NUM_NODES"], self.nodes)
            )
        self.job = job_of(run, mine, spec)
        self.job["dir"] = os.path.join(self.folder, node(self.rank, mine["host"]))
        self.job["runs"] = self.folder  # whose disk the run's files are on
        self.setup: list[str] = run.get("setup") or []
        # What many nodes look at on a file system, they look at the less often.
        self.every_s = max(LOOK_S, self.nodes / NODES_A_SECOND)
        self.looked = -1.0
        self.samples_sent_at = time.monotonic()
        self.flush_s = self.job["flush_s"] = max(FLUSH_S, self.nodes / FLUSHES_A_SECOND)
        self.is_looked_at = self.rank in own_disk.looked_at(self.nodes)
        self.lease: dict[str, Any] = {}
        self.notes: list[str] = []  # what may have disturbed the run, in sentences
        self.suspension = Suspension()
        self.roster = rank0.Roster(self.folder, self.nodes)
        watched = rank0.folders(self.folder) if self.rank == 0 else []
        self.watchman = rank0.Stalls(watched, self.job["stall_limit_s"])
        self.parent = os.getppid()  # slurmstepd
        self.guarded: int | None = None
        self.was_set_up = False

    def halt(self, cause: Cause, words: str) -> None:
        """Record why the run ends, if nobody has yet: the first reason stays."""
        content = {"schema": 1, "cause": cause, "host": self.host, "message": words}
        create_once(os.path.join(self.folder, HALT), json.dumps(dict(content, at=time.time())))

    def asked(self) -> dict[str, Any] | None:
        """Return how the run is to end; None while it may go on."""
        if TERMINATED:
            return {"ended_by": EndedBy.STOP, "message": TERMED}
        if os.getppid() != self.parent:
            return {"ended_by": EndedBy.ERROR, "message": "slurmstepd, which started it, has ended"}
        now = time.monotonic()
        pause_s = self.suspension.pause_s(now)
        if pause_s:
            self.note_suspended(pause_s)
        if now - self.looked < self.every_s:
            return None
        self.looked = now
        self.show_samples(now)
        if self.rank == 0 and self.watchman.stalled(now):
            limit_s = self.job["stall_limit_s"]
            self.halt(Cause.STALLED, "no node printed anything for %g s (stall_limit_s)" % limit_s)
        halt = read_json(os.path.join(self.folder, HALT))
        if halt is not None:
            return {"ended_by": EndedBy.STOP, "message": str(halt.get("cause"))}
        lease = self.spec.get("lease")
        return lease_lost(self.lease, self.job, lease) if lease else None

    def note_suspended(self, pause_s: float) -> None:
        """Note once for all nodes that the run stood still, and count that time as no stall."""
        self.watchman.grown += pause_s
        if self.rank == 0:
            self.notes.append(sentence(pause_s))
            with contextlib.suppress(OSError):
                write(PREPARED, self.prepared())

    def prepared(self) -> str:
        """Return what this node says of itself before the run, and of what disturbed that."""
        return json.dumps({"boot_id": boot_id(), "noted": self.notes, "schema": 1})

    def show_samples(self, now: float) -> None:
        """Leave the newest samples for a live view, where that looks at this node."""
        if self.is_looked_at and now - self.samples_sent_at > self.flush_s:
            self.samples_sent_at = now
            own_disk.show_newest(self.job)


def task(spec: dict[str, Any]) -> NoReturn:
    """Run this node's part of a run, from its preparation to done.json.

    `spec`: run (the attempt's folder), restart (how often Slurm had started the job before it),
    mark, programs (where these modules lie), switches (a file with the hosts of each leaf switch,
    by which nodes have their ranks), inspect (the folder that hosts are described in),
    patience_s (for the others to come), variables (whether the trainer gets Slurm's), lease (a file
    that somebody renews; empty: the job lives by its own limits), lease_s (how long it holds).
    """
    if not node_tasks.is_first():
        taken_secrets()
        node_tasks.follow(spec)
    part = Task(spec)
    if part.job["tasks"]:
        part.job["listener"] = node_tasks.meet_at(spec["mark"])
    try:
        prepare(part)
    except RefusedError as refusal:
        refuse(part, refusal)
    enter(part.job["dir"])
    part.guarded = guard(lambda: lost(part))
    done = if_told(hold(lambda: run(part)))
    if not ended_well(done):
        if done.get("message") == TERMED:
            await_halt(part)
        part.halt(cause_of(done), "%s: %s" % (part.host, words_of(done)))
    end(part, done)


def await_halt(part: Task) -> None:
    """Give another node a moment to say why Slurm ends the step, such as a supervisor's death."""
    _await(lambda: os.path.exists(os.path.join(part.folder, HALT)))


def _await(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + TOLD_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)


def if_told(done: dict[str, Any]) -> dict[str, Any]:
    """Return how a node ended, which is by the TERM that came to supervisor and launcher at once.

    Slurm ends a job so, and the launcher's end may be seen first.
    """
    if done["ended_by"] != EndedBy.EXIT or ended_well(done):
        return done
    _await(lambda: bool(TERMINATED))
    return dict(done, ended_by=EndedBy.STOP, message=TERMED) if TERMINATED else done


def end(part: Task, done: dict[str, Any]) -> NoReturn:
    """Write how this node ended, wait for the others, and leave."""
    if part.was_set_up:
        take_down(part.job)
    finish(done)
    own_disk.bring(part.job)
    wait_for_others(part)
    if ended_well(done) and not os.path.exists(os.path.join(part.folder, HALT)):
        chain.remove(part.job)
    if part.guarded is not None:
        release(part.guarded)
    if part.rank == 0:
        keep(part.spec["programs"])  # nobody waits for what comes now
    os._exit(0)


def wait_for_others(part: Task) -> None:
    """Say that this node has ended; node rank 0 waits for the others and says that all have."""
    part.roster.ended(part.rank)
    if part.rank == 0:
        rank0.finish(part.folder, part.roster, lambda: bool(TERMINATED))


def lost(part: Task) -> None:
    """End what this node's supervisor left, which was killed, and the run; in the guard."""
    if not os.path.exists(DONE):
        message = words_of({"ended_by": EndedBy.SUPERVISOR_LOST})
        part.halt(Cause.SUPERVISOR_LOST, "%s: %s" % (part.host, message))
        placement = read_json(os.path.join(part.folder, PLACEMENT))
        after = filled(part.job["after"], placement) if placement else []
        lost_supervisor(dict(part.job, after=after))
        take_down(part.job)
    own_disk.bring(part.job)
    wait_for_others(part)


def run(part: Task) -> dict[str, Any]:
    """Meet the others, start the launcher with what only the job knows, watch it to its end."""
    path = ARRIVALS if part.is_looked_at else own_disk.path_of(part.job, ARRIVALS)
    part.job["arrivals"] = path, part.flush_s
    return watch(part.job, lambda: meet(part), part.asked)


def prepare(part: Task) -> None:
    """Check this node, and make its folder. Raises RefusedError."""
    job = part.job
    try:
        take_devices(job)
        lay_out(job)
        if part.setup:
            part.was_set_up = True
            set_up(job, part.setup, os.path.join(job["dir"], SETUP_LOG))
        part.notes = check(job) + scratch.notes(job)
        limit_log(job)
        scratch.make(job)
        own_disk.keep(job)
        chain.begin(job)
        if part.notes:
            write(os.path.join(job["dir"], PREPARED), part.prepared())
    except FileExistsError:  # its records are the other's: nothing is written there
        raise ProgramError("%s exists: this node's part of the run began before" % job["dir"])
    except OSError as error:
        raise RefusedError(Cause.IO_ERROR, "cannot prepare %s: %s" % (job["dir"], error.strerror))


def refuse(part: Task, refusal: RefusedError) -> NoReturn:
    """End this node's part before it began, and the run with it."""
    part.halt(refusal.cause, "%s: %s" % (part.host, refusal))
    os.makedirs(part.job["dir"], mode=0o700, exist_ok=True)
    os.chdir(part.job["dir"])
    refused = {"ended_by": EndedBy.REFUSED, "cause": refusal.cause, "message": str(refusal)}
    end(part, dict(refused, ended_at=time.time()))


def meet(part: Task) -> dict[str, Any] | None:
    """Say that this node is ready, and wait for all others; what ended the run before."""
    part.roster.come(part.rank, facts(part))
    describe(part)
    path = os.path.join(part.folder, MEETING)
    until = time.monotonic() + part.spec["patience_s"]
    pause_s = max(0.01, part.nodes / NODES_A_SECOND / 10)
    while True:
        if part.rank == 0:
            rank0.place(part.folder, part.roster, part.job["ports"])
        placement = read_json(path) if visibility.fresh(path, part.nodes) else None
        if placement is not None:
            if needs_others(part.job):  # whose addresses grow with the nodes
                placement = read_json(os.path.join(part.folder, PLACEMENT))
            begin(part, placement)
            return None
        early = part.asked()
        if early is None and time.monotonic() > until:
            late = ", ".join(part.roster.absent()[:4]) or "0"
            message = "node rank %s did not start within %g s; see the output of its Slurm job"
            message %= (late, part.spec["patience_s"])
            return {"ended_by": EndedBy.REFUSED, "cause": Cause.LAUNCH_ERROR, "message": message}
        if early is not None:
            return early
        time.sleep(pause_s)
        pause_s = min(1.02 * pause_s, part.every_s)  # late by a fiftieth of the wait


def begin(part: Task, placement: dict[str, Any]) -> None:
    """Fill in what only the job knows, and write down what runs."""
    job = part.job
    placement = {**placement, "switch_here": switches.switch_here()}
    for key in ("argv", "env", "after", "processes"):
        job[key] = filled(job[key], placement)
    for name, text in job["files"].items():
        if WORD.search(text):
            write(name, filled(text, placement))
    started = {key: job[key] for key in ("argv", "env", "cwd", "device_ids", "processes")}
    started["env"] = {**job["env"], **dict.fromkeys(job.get("hidden", ()), HIDDEN)}
    late_s = visibility.delay_s(os.path.join(part.folder, MEETING))
    write(STARTED, json.dumps(dict(started, schema=1, late_s=late_s), indent=1))
    if part.spec.get("variables"):
        slurms = {name: os.environ[name] for name in os.environ if name.startswith("SLURM")}
        job["env"] = {**slurms, **job["env"]}
    job["env"] = dict(job["env"], **part.secrets)
    part.watchman.begin(time.monotonic())
    part.suspension.watch()


def facts(part: Task) -> dict[str, Any]:
    """Return what the others are to know of this node."""
    return {
        "host": part.host,
        "address": address_of(part.host),
        "cpus": len(os.sched_getaffinity(0)),
        "devices": part.job["device_ids"],
        "switch": switches.switch_here(),
    }


def describe(part: Task) -> None:
    """Leave in the campaign what this node is, once."""
    folder = part.spec.get("inspect")
    path = os.path.join(folder or "", part.host + ".json")
    if folder and not os.path.exists(path):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        write(path, json.dumps(dict(inspect({"paths": {}}), schema=1), indent=1))


def job_of(run: dict[str, Any], mine: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return what the supervisor is to do, of its orders and of what srun's task was told."""
    node = {key: value for key, value in mine.items() if key != "host"}
    job_orders = {"run_id": run["run_id"], "mark": spec["mark"], "modules": spec["programs"]}
    job_orders["teardown"] = run.get("teardown") or []
    job_orders["tasks"] = node.get("tasks") or 0
    job_orders["processes"] = [argv or node["argv"] for argv in node.get("processes") or []]
    chain = run.get("chain")
    job_orders["chain"] = dict(chain, node=node["node_rank"]) if chain else None
    limits = dict(run["supervisor"], lease_s=spec.get("lease_s") or 0.0)
    return {**node, **limits, **job_orders}


def attempt_folder(spec: dict[str, Any]) -> str:
    """Return the folder of this start of the job: each time it is requeued, the next attempt's.

    Node rank 0 makes that one, and the others wait for it. Raises ProgramError where this node does
    not see what bench wrote, or another file under its name.
    """
    first: str = spec["run"]
    await_file(os.path.join(first, RUN), first)
    if (read_json(os.path.join(first, SUBMITTED)) or {}).get("mark") != spec["mark"]:
        raise ProgramError(visibility.not_shared(host_name(), first)[1])
    restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0) - spec["restart"]
    if restarts <= 0:
        return first
    above, _, number = first.rpartition("attempt")
    folder = "%sattempt%d" % (above, int(number) + restarts)
    if os.environ.get("SLURM_NODEID", "0") == "0":
        rank0.requeue(first, folder)
    await_file(os.path.join(folder, RUN), folder)
    return folder


def await_file(path: str, folder: str) -> None:
    """Wait for a file that shows late. Raises ProgramError where it never does."""
    until = time.monotonic() + FOLDER_S
    while not visibility.fresh(path):
        if time.monotonic() > until:
            raise ProgramError(visibility.not_shared(host_name(), folder)[1])
        time.sleep(0.1)
