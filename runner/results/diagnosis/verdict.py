"""From all logs' evidence to one status, one sentence, one line of one file. First cause first."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.base.text import listing
from runner.logs.kinds import every
from runner.results.diagnosis.causes import STATUSES
from runner.results.diagnosis.log_end import (
    EvidenceLine,
    LogEnd,
    find_evidence,
    find_last_step,
)
from runner.terms.record import Place

LAST_LINES = 500  # a crash of 16 ranks prints about as many
MOST_NAMED = 128  # ranks in a sentence
_WHO = re.compile(rb"\[rank ?(\d{1,9})\]|\[default(\d{1,9})\]")
_HOST = re.compile(rb"^([\w.-]{1,253}): ")
_ABNORMAL = re.compile(r"Cluster Exception Location\[IP/ID\]:\[([^\]]{1,80})\]")
_TASK = re.compile(r"srun: error: .{1,200}: Exited with exit code")
# What cures what a line says, where the status does not tell it.
_CURES = (
    (
        re.compile(r"(?:SIGHUP|\b1) death signal|got signal: 1\b|closing signal SIGHUP"),
        "nohup does not protect torchrun when its terminal closes: use tmux, setsid or"
        " bench --detach",
    ),
    (
        re.compile(r"no kernel image is available|cudaErrorNoKernelImageForDevice"),
        "this torch has no code for the card: install one that was built for it",
    ),
    (re.compile(r"[Dd]river version is insufficient"), "install a newer driver, or an older torch"),
    (re.compile(r"invalid device ordinal"), "the node has fewer GPUs than ranks were started"),
    (re.compile(r"system not yet initialized"), "start NVIDIA's Fabric Manager on the node"),
)


@dataclass(frozen=True)
class Verdict:
    """A status of causes.STATUSES, one sentence, and the evidence: its file, line and words.

    `name` is the file as the sentence calls it. `closed` is the line by which the trainer says that
    it ended by itself, at whatever iteration; of an ok one alone.
    """

    status: str
    sentence: str
    path: Path | None = None
    line: int | None = None
    words: str = ""
    name: str = ""
    closed: str = ""


def file_name(path: Path) -> str:
    """Call a log by its name alone."""
    return path.name


def diagnose(
    logs: Mapping[Path, Sequence[Place]], *, name: Callable[[Path], str] = file_name
) -> Verdict:
    """Say why a run ended, from its nodes' logs together, each with the steps that were read of it.

    `name` is what the sentence calls a log. Where no clock says which came first, the logs'
    order does.
    """
    steps = any(logs.values())
    evidences, complete, torn, stepless, stepped = [], False, [], [], []
    for path, logged in logs.items():
        newest_step = find_last_step(path, logged)
        log_end = find_evidence(path, newest_step.begin)
        complete = complete or (newest_step.done and not log_end.launched)
        evidences.append(log_end)
        stepless.append(steps and newest_step.begin == 0)
        stepped += [log_end] if newest_step.begin else []
        torn += [path] if newest_step.torn else []
    everything = [
        item
        for log_end, silent in zip(evidences, stepless, strict=True)
        for item in log_end.evidence
        if _counts(
            item,
            log_end,
            silent=silent,
            complete=complete,
            trained=steps and not log_end.launched,
        )
    ]
    first_cause = _first_cause(_without_aftermath(everything))
    if first_cause is None:
        before = _first_cause([item for log_end in evidences for item in log_end.before])
        earlier = f"; of the launch before: {_cause_text(before, name)}" if before else ""
        if (stepped and all(log_end.launched for log_end in stepped)) or (before and not steps):
            why = "the last launch logged no step; no cause was found in the log"
            return Verdict("no_step", why + earlier)
        if steps and len(torn) == len(stepped) > 0:
            why = f"the log ends within the line of its last step ({name(torn[0])})"
            return Verdict("unfinished", why)
        if steps:
            closed = next((log_end.closed for log_end in evidences if log_end.closed), "")
            return Verdict("ok", "", closed=closed)
        return Verdict("no_step", "no step was logged and nothing in the log says why")
    if first_cause.status == "disk_full" and "No space left" not in first_cause.text:
        # Of a checkpoint that could not be written, the line that says so.
        full = (item for item in everything if item.status == "disk_full")
        first_cause = next((item for item in full if "No space left" in item.text), first_cause)
    status = STATUSES[first_cause.status].alone or first_cause.status
    sentence = _cause_text(first_cause, name) + _waiting(status, evidences, everything)
    cure = next((words for said, words in _CURES if said.search(first_cause.text)), "")
    sentence += f"; {cure}" if cure else ""
    return Verdict(
        status,
        sentence,
        first_cause.path,
        first_cause.place,
        first_cause.text,
        name(first_cause.path),
    )


def _cause_text(item: EvidenceLine, name: Callable[[Path], str]) -> str:
    """Say what a line is evidence of, the line, and where it stands."""
    excerpt = item.text if len(item.text) <= 200 else item.text[:197] + "..."
    says = STATUSES[STATUSES[item.status].alone or item.status].says
    return f"{says}: {excerpt} ({name(item.path)}:{item.place}{_rank_and_host(item)})"


def _counts(
    item: EvidenceLine, log_end: LogEnd, *, silent: bool, complete: bool, trained: bool
) -> bool:
    """Return whether evidence may be of the run's end.

    `silent`: a log without steps beside others that have some. Nothing in it shows that training
    went on after a caught exception of its start, so that only its end counts.
    """
    if (complete and (item.weak or silent)) or (trained and item.start):
        return False
    return not silent or item.place > log_end.lines - LAST_LINES


def _without_aftermath(evidence: Sequence[EvidenceLine]) -> list[EvidenceLine]:
    """Leave out that Slurm cancelled a step behind srun's line that a task of it had failed."""
    failed = [item for item in evidence if _TASK.search(item.text)]
    return [
        item
        for item in evidence
        if item.status != "cancelled"
        or not any(failure.path == item.path and failure.place < item.place for failure in failed)
    ]


def _first_cause(evidence: Sequence[EvidenceLine]) -> EvidenceLine | None:
    """Find the first cause: what others followed from, before what only follows from others."""
    strong = [item for item in evidence if not item.weak and not item.start]
    ends = ("process_failed", "terminated", "aborted")
    for pool in (
        [item for item in strong if not STATUSES[item.status].follows],
        [item for item in strong if item.status not in ends],
        [item for item in strong if item.status == "aborted"],
        [item for item in evidence if item.weak],
        [item for item in evidence if item.start],
        strong,
    ):
        if pool:
            return _earliest(pool)
    return None


def _earliest(pool: Sequence[EvidenceLine]) -> EvidenceLine:
    """Choose by the clock where all logs' first lines have one, else by file and line."""
    firsts: dict[Path, EvidenceLine] = {}
    for item in pool:
        firsts.setdefault(item.path, item)
    leading = list(firsts.values())
    if all(item.time is not None for item in leading):
        lengths = {len(item.time or ()) for item in leading}
        if len(lengths) == 1:
            return min(leading, key=lambda item: item.time or ())
    return leading[0]


def _rank_and_host(item: EvidenceLine) -> str:
    rank, host = _WHO.search(item.stream), _HOST.match(item.stream)
    parts = [f"rank {(rank[1] or rank[2]).decode()}"] if rank else []
    parts += [f"on {host[1].decode()}"] if host else []
    return ", " + " ".join(parts) if parts else ""


def _waiting(status: str, evidences: Sequence[LogEnd], everything: Sequence[EvidenceLine]) -> str:
    """Say on whom the others waited, as far as the logs tell."""
    waited = {
        rank: operation for log_end in evidences for rank, operation in log_end.waited.items()
    }
    if not waited and status != "collective_timeout":
        return ""
    for item in everything:
        if device := _ABNORMAL.search(item.text):
            return f"; the others waited for device {device[1]}"
    if not waited:
        return ""
    names = _listed(waited)
    missing_ranks = set().union(*(log_end.ranks for log_end in evidences)) - set(waited)
    operation = sorted(set(waited.values()))[0]
    text = (
        f"; rank {names} waited in {operation}"
        if len(waited) == 1
        else (f"; ranks {names} waited in {operation}")
    )
    if status == "collective_timeout" and missing_ranks:
        text += f" for some of ranks {_listed(missing_ranks)}"
    return text


def _listed(ranks: Iterable[int]) -> str:
    """List ranks in their order, and of very many only how many more there are."""
    return listing([*map(str, sorted(ranks))], MOST_NAMED)


@cache
def rules() -> str:
    """Return what identifies the rules of this version: a verdict by the same rules need
    not be redone.
    """
    sources = sorted(Path(__file__).parent.glob("*.py"))
    texts = [path.read_bytes() for path in sources]
    texts += [pattern for attribute in ("step", "error", "success") for pattern in every(attribute)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]
