"""A run as Slurm has it: what is written down before it is handed over, and how it ended."""

import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.causes import Cause, EndedBy
from node.supervisor.orders import leave
from node.supervisor.rank0 import requeue
from node.visibility import FORGET_S, clock, fresh
from runner.base.text import listing, tail
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.packed import pack
from runner.folder.placement import Submitted
from runner.folder.queued import Queued
from runner.folder.stored import UnreadableError, write_json
from runner.launch.slurm import commands
from runner.launch.slurm.commands import SlurmError
from runner.launch.slurm.program import argv, python_of
from runner.launch.slurm.states import Ended
from runner.results.decide import last_words as judged_words
from runner.terms.orders import Orders

TASK = "supervisor.task:task"
NOISE = b"lacks support for cpu binding"  # srun, on clusters without cgroups, each time
POLL_S = 0.1  # between two looks at a run's folder
FORGET, LONGEST_FORGET_S = 0.05, 15.0  # of the time that a run was followed; seconds at most
LATE_S = 10.0  # for the last files of a job that is over to show here
TOLD = (EndedBy.STOP, EndedBy.LEASE)  # by somebody who is not the node
SLURMS = re.compile(rb"(?:\d{1,6}: )?(?:srun: |slurmstepd[-:])")
KILLED = re.compile(rb"srun: error: \S+: task \d+: ")  # as srun says which task ended first
PYXIS = b"error: pyxis: "  # said on a node where no task could begin
MEET_S = 600.0  # for all nodes of a run to come


def begun(run: RunFolder, job_id: int | None = None) -> Submitted:
    """Write down that a run is about to be handed over, under a mark of its own.

    `job_id` is the allocation's, where it is a step of one.
    """
    submitted = Submitted(secrets.token_hex(16), time.time(), job_id)
    leave(str(run.path))
    write_json(run.path / names.SUBMITTED, submitted.to_json())
    return submitted


def known(run: RunFolder, submitted: Submitted, job_id: int) -> Submitted:
    """Write down which job a run is."""
    now = replace(submitted, job_id=job_id)
    write_json(run.path / names.SUBMITTED, now.to_json())
    return now


def held_back(run: RunFolder, error: Exception) -> None:
    """Write down why a run is not in the queue yet, for who watches it."""
    queued = Queued(state="not submitted", reason=str(error)[:100], asked_at=time.time())
    with suppress(OSError):  # a full disk here: the run's own files say it
        write_json(run.path / names.QUEUE, queued.to_json())


def submitted(run: RunFolder) -> Submitted | None:
    """Return as what a run was handed over; None where it was not, or that cannot be read."""
    try:
        return run.submitted
    except UnreadableError:
        return None


def found(submitted: Submitted) -> int | None:
    """Return the job that something was handed over as, where only its comment says so."""
    jobs = commands.find_by_comment(submitted.mark)
    return jobs[-1].id if jobs else None


def task(campaign: Path, run: Path, orders: Orders, told: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command line of a run's task on each node; `told` is beside what all are told.

    `campaign` and `run` are their folders; the first has the task's modules (`program.leave`).
    """
    arguments = {
        "run": str(run),
        "restart": 0,
        "inspect": str(campaign / names.INSPECTED),
        "switches": str(campaign / names.SWITCHES),
        "patience_s": MEET_S,
        **told,
    }
    return argv(python_of(orders), TASK, campaign, arguments)


def over(run: RunFolder, followed_s: float = 0.0) -> bool:
    """Return whether every node of a run has said how it ended.

    `followed_s`: for how long it was followed by now. The longer, the seldomer a network file
    system is made to forget that the file was missing, which takes five operations.
    """
    forget_s = min(max(FORGET_S, FORGET * followed_s), LONGEST_FORGET_S)
    return fresh(str(run.path / names.ENDED), forget_s=forget_s)


def await_records(run: RunFolder, patience_s: float = LATE_S) -> bool:
    """Wait for what the nodes of a job that is over have written; whether all of it came."""
    until = time.monotonic() + patience_s
    while not over(run):
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    show(run)
    return True


def show(run: RunFolder) -> None:
    """Make visible here what the nodes of an ended run have written.

    A network file system remembers for up to a minute that a log was missing when it was first
    looked for.
    """
    files = [log.with_name(name) for log in run.logs().values() for name in (names.LOG, names.DONE)]
    absent = {file.parent: None for file in files if not file.exists()}
    if absent:
        for folder in (run.path / names.NODES, *absent):
            clock(str(folder))


def put_away(campaign: Path) -> None:
    """Pack what the nodes brought of runs that are over and judged: that leaves few files."""
    for roster in campaign.glob(f"{names.ATTEMPTS}/{names.ROSTER}"):
        run = roster.parent
        if (run / names.ENDED).exists() and (run / names.OUTCOME).exists():
            with suppress(OSError):  # as on a full disk: the next bench does it
                pack(run)


def needs_reason(run: RunFolder) -> bool:
    """Return whether a run ended, and none of its own records says why.

    A launcher that ended by itself, and a node that refused, say it: they win over what Slurm says.
    A node that was sent TERM does not know by whom.
    """
    halt = run.halt
    if halt is not None and (halt.host is None or halt.cause != Cause.STOPPED):
        return False
    endings = run.endings().values()
    if any(not ending.well and ending.ended_by not in TOLD for ending in endings):
        return False
    return len(endings) < len(run.hosts) or not all(ending.well for ending in endings)


def settle(run: RunFolder, ended: Ended) -> None:
    """Say why a run ended, where Slurm knows it and our own records do not."""
    if needs_reason(run):
        reason = ended.words
        if ended.cause == Cause.NODE_LOST:
            reason = ": ".join(filter(None, (reason, listing(lost_nodes(run)))))
        if ended.cause == Cause.JOB_FAILED:
            if run.placement is not None:  # Slurm says that it could not be started, all the same
                reason = "the job ended under its run: srun or a node's slurmd is gone"
            reason = ": ".join(filter(None, (reason, last_words(run))))
        (run.path / names.HALT).unlink(missing_ok=True)
        run.ask_to_halt(ended.cause, reason)


def lost_nodes(run: RunFolder) -> list[str]:
    """Return the nodes of a run that Slurm takes for down, with its reason; if it names none, those
    that did not say how they ended.
    """
    if run.placement is None:
        return []
    hosts = list(run.hosts.values())
    with suppress(SlurmError):
        if down := commands.down_nodes(hosts):
            return [f"{host} ({why})" if why else host for host, why in down.items()]
    silent = [host for host in hosts if host not in run.endings()]
    return silent if len(silent) < len(hosts) else []


def follows(run: RunFolder, restart: int) -> RunFolder:
    """Make the attempt that Slurm started a run again as; node rank 0 of the job makes the same."""
    above, _, number = run.path.name.rpartition("attempt")
    was = run.submitted
    assert was is not None  # what was not handed over is not started again
    folder = run.path.with_name(f"{above}attempt{int(number) + restart - was.restart}")
    requeue(str(run.path), str(folder))
    write_json(folder / names.SUBMITTED, replace(was, restart=restart).to_json())
    return RunFolder(folder)


def began_again(run: RunFolder) -> bool:
    """Return whether a later start of its job has made the next attempt's folder."""
    above, _, number = run.path.name.rpartition("attempt")
    return (run.path.with_name(f"{above}attempt{int(number) + 1}") / names.RUN).exists()


def last_words(run: RunFolder) -> str:
    """Return what a task, or srun itself, printed at last; empty where they said nothing."""
    lines = tail(run.path / names.SUBMIT_OUTPUT).splitlines()
    lines = [line for line in lines if NOISE not in line]
    tasks = [line for line in lines if not SLURMS.match(line)]
    container = [line for line in lines if PYXIS in line]  # what follows it names it no more
    killed = [line for line in lines if KILLED.match(line)]  # the first, by srun's own account
    return judged_words(b"\n".join(container or tasks or killed[:1] or lines))
