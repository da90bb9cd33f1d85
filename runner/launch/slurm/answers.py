"""What Slurm's programs print, read as text from outside: nouns, or nothing. Pure.

Text, not JSON: Slurm's JSON has another shape with each release. A job whose fields do not fit is
left out, as if Slurm had not listed it: several programs are asked, and without an answer a job
has not ended.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from node.kinds import Line
from node.printable import printable
from node.schema import UnfitError, Whole, Words
from node.validated_text import Checked
from runner.base.dataclass_schema import read

MARK = "trainbench:"  # begins the comment of each job of ours


class StateName(Checked):
    """A state of a job, as Slurm spells it: PENDING, OUT_OF_MEMORY."""

    pattern = r"[A-Z][A-Z_]*"
    most = 40
    description = "a state of Slurm's, in capitals"


JobId = Annotated[int, Whole(1, 2**32)]
Facts = Annotated[str, Line(most=10_000)]
Reason = Annotated[str, Words(500)]


@dataclass(frozen=True)
class QueuedJob:
    """A job as squeue has it: what waits, runs, or ended within the last minutes.

    `nodes` is a node list of Slurm's (node[1-4]), empty while it waits; `starts_at` is when a job
    that waits is expected to start. Times are seconds since 1970 by the controller's clock.
    """

    id: JobId
    state: StateName
    partition: Facts
    nodes: Facts
    priority: int
    submitted_at: int | None
    starts_at: int | None
    ends_at: int | None
    reason: Reason
    comment: Facts


@dataclass(frozen=True)
class JobRecord:
    """A job as scontrol has it, until some minutes after its end (MinJobAge).

    `restarts` counts how often it went back into the queue; `exit_code` and `exit_signal` are those
    of job.sh.
    """

    id: JobId
    state: StateName
    reason: Reason
    restarts: int
    exit_code: int
    exit_signal: int
    submitted_at: int | None
    starts_at: int | None
    ends_at: int | None
    partition: Facts
    nodes: Facts


@dataclass(frozen=True)
class AccountedJob:
    """A job as sacct has it, for good; of several starts the last.

    `by` is the number of the user who cancelled it, where that is known.
    """

    id: JobId
    state: StateName
    by: int | None
    exit_code: int
    exit_signal: int
    starts_at: int | None
    ends_at: int | None
    nodes: Facts


Noun = TypeVar("Noun", QueuedJob, JobRecord, AccountedJob)

# Free text stands last, since it may hold what parts the others.
_SQUEUE = {
    "id": "%i",
    "state": "%T",
    "partition": "%P",
    "nodes": "%N",
    "priority": "%Q",
    "submitted_at": "%V",
    "starts_at": "%S",
    "ends_at": "%e",
    "reason": "%r",
    "comment": "%k",
}
_PLACE = {"id": "%i", "priority": "%Q", "partition": "%P"}
# What there is without a database, too (sacct --completion).
_SACCT = {
    "id": "JobID",
    "state": "State",
    "exit": "ExitCode",
    "starts_at": "Start",
    "ends_at": "End",
    "nodes": "NodeList",
}
# The first of each is the job's own: what users write (Comment) stands behind them.
_SCONTROL = {
    "id": "JobId",
    "state": "JobState",
    "reason": "Reason",
    "restarts": "Restarts",
    "exit": "ExitCode",
    "submitted_at": "SubmitTime",
    "starts_at": "StartTime",
    "ends_at": "EndTime",
    "partition": "Partition",
    "nodes": "NodeList",
}
_AFTER = {"reason": " Dependency="}  # what follows on a field that may have blanks
MOST_RECORD = 100_000  # letters of a job's record; what we read of it stands at its beginning
SQUEUE_FORMAT = "|".join(_SQUEUE.values())
PLACE_FORMAT = "|".join(_PLACE.values())
DOWN_FORMAT = "%N|%E"
MOST_WHY = 100  # letters of a reason
SACCT_FORMAT = ",".join(_SACCT.values())

_NOTHING = frozenset(("", "(null)", "N/A", "Unknown", "None", "NONE", "None assigned"))
# Names that sacct may have cut off in its column: `OUT_OF_ME+`.
_LONG_NAMES = ("CANCELLED", "COMPLETED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED")


def queued(output: str) -> dict[int, QueuedJob]:
    """Read what squeue prints in SQUEUE_FORMAT, by job id."""
    jobs = (_noun(QueuedJob, row) for row in _rows(output, tuple(_SQUEUE)))
    return {job.id: job for job in jobs if job is not None}


def recorded(output: str) -> JobRecord | None:
    """Read what `scontrol -o show job` prints of one job."""
    text = f" {output[:MOST_RECORD]}"

    def field(name: str, key: str) -> str:
        _, _, value = text.partition(f" {key}=")
        return value.partition(_AFTER.get(name, " "))[0].strip()

    return _noun(JobRecord, {name: field(name, key) for name, key in _SCONTROL.items()})


def accounted(output: str) -> dict[int, AccountedJob]:
    """Read what sacct prints in SACCT_FORMAT with --duplicates: of each job its last start."""
    jobs: dict[int, AccountedJob] = {}
    for row in _rows(output, tuple(_SACCT)):
        state, _, state_suffix = row["state"].partition(" ")
        by = state_suffix.removeprefix("by ")
        state = next(
            (name for name in _LONG_NAMES if state[-1:] == "+" and name.startswith(state[:-1])),
            state,
        )
        job = _noun(AccountedJob, {**row, "state": state, "by": by if by.isdigit() else ""})
        if job is not None and _is_later(job, jobs.get(job.id)):
            jobs[job.id] = job
    return jobs


def ahead(output: str, jobs: Iterable[QueuedJob]) -> dict[int, int]:
    """Count before each job those of its partition that go first, in squeue's PLACE_FORMAT."""
    waiting = []
    for row in _rows(output, tuple(_PLACE)):
        number = _number(row["id"].partition("_")[0])  # an array's is 12_[3-9]
        priority = _number(row["priority"])
        if number is not None and priority is not None:
            waiting.append((row["partition"], (-priority, number)))
    return {
        job.id: sum(
            partition == job.partition and position < (-job.priority, job.id)
            for partition, position in waiting
        )
        for job in jobs
    }


def longest_s(output: str, name: str | None) -> float | None:
    """Read MaxTime of a partition (None: the default one) in what `scontrol -o show partition`
    prints: D-HH:MM:SS or UNLIMITED.
    """
    pattern = re.compile(rf"PartitionName={re.escape(name)}\s" if name else r"\sDefault=YES\s")
    line = next((line for line in output.splitlines() if pattern.search(f"{line} ")), "")
    match = re.search(r"\sMaxTime=(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)\s", f"{line} ")
    if match is None:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def down_nodes(output: str) -> dict[str, str]:
    """Read what sinfo prints in DOWN_FORMAT: node to why it is down, "" where nobody said why."""
    nodes: dict[str, str] = {}
    for line in output.splitlines():
        node, separator, why = line.partition("|")
        if separator and re.fullmatch(r"[\w.-]{1,255}", node.strip()):
            reason = printable(why.strip())[:MOST_WHY]
            nodes[node.strip()] = "" if reason.lower() in ("none", "unknown") else reason
    return nodes


def leaf_switches(output: str) -> list[str]:
    """Read the node list of each leaf switch in what `scontrol -o show topology` prints.

    In topology/block a block is one: the nodes of an NVLink domain. Blocks of blocks are none.
    """
    nodes = re.compile(r"\bNodes=(\S+)")
    leaf = re.compile(r"^\s*BlockName=| Level=0(?: |$)")
    leaves = (line for line in output.splitlines() if leaf.search(line))
    return [match[1] for line in leaves if (match := nodes.search(line))]


def sentence(stderr: str) -> str:
    """Return what a program of Slurm's complains about, as one line without its own name."""
    lines = (line.strip() for line in stderr.splitlines())
    messages = (re.sub(r"^\w+: (?:error: |fatal: )?", "", line) for line in lines if line)
    return printable("; ".join(dict.fromkeys(messages)))[:1_000]


def _rows(output: str, names: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """Yield the lines that have all fields; the last field may hold what parts them."""
    for line in output.split("\n"):
        parts = line.split("|", len(names) - 1)
        if len(parts) == len(names):
            yield dict(zip(names, parts, strict=True))


def _noun(noun: type[Noun], row: Mapping[str, str]) -> Noun | None:
    """Return the noun that text says; None where it does not fit."""
    code, _, signal = row.get("exit", "0:0").partition(":")
    content = {**row, "exit_code": code or "0", "exit_signal": signal or "0"}
    try:
        return read(noun, {name: _value(name, text) for name, text in content.items()})
    except UnfitError:
        return None


_WHOLE = ("id", "priority", "restarts", "exit_code", "exit_signal")
_MAYBE = ("by", "submitted_at", "starts_at", "ends_at")


def _value(name: str, text: str) -> int | str | None:
    """Return a field as JSON has it; text in place of a number stays text, and does not fit."""
    if name in _WHOLE or name in _MAYBE:
        number = _number(text)
        return text if number is None and name in _WHOLE else number
    return "" if text in _NOTHING and name != "state" else text


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def _is_later(job: AccountedJob, other: AccountedJob | None) -> bool:
    """Whether this is a later start of one job; one that has not begun comes last."""
    if other is None or job.starts_at is None:
        return True
    return other.starts_at is not None and job.starts_at >= other.starts_at
