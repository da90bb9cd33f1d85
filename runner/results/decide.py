"""How a run ended, from what its nodes and its log say. Pure."""

import re
from collections.abc import Mapping
from dataclasses import replace

from node.causes import LATE, Cause, cause_named
from node.printable import printable
from node.validated_text import InsidePath
from runner.figures.counted_steps import is_short, planned, spacing
from runner.figures.curves import diverged_at
from runner.folder.attempt import Halt
from runner.folder.endings import Ending, first_bad, incomplete
from runner.results.diagnosis.causes import STATUSES
from runner.results.diagnosis.verdict import Verdict, rules
from runner.terms.outcome import Outcome, Place
from runner.terms.record import UNREADABLE, Measurement

# What an end by exit code 0 is where the logs say that something failed.
_FAILED = {"no_steps": "did_not_run", "unfinished": "failed"}

# A launcher that the kernel or a person killed; what the other ranks say follows from it.
_BY_KILL = "was ended by signal 9"
_WHO_KILLS = " (KILL: often the kernel, for the host's memory; `journalctl -k` there says so)"

_ERROR = re.compile(r"^(?:\w+ error: |(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b(?::|$))")
_NOISE = re.compile(
    r"ChildFailedError|SignalException|^[EWI]\d{4} |^[=\-~^ ]*$|^\[trainbench:"
    r"|^error_file: <N/A>$|^traceback : To enable traceback see"
)


def decide(
    *,
    nodes: int,
    endings: Mapping[str, Ending],
    halt: Halt | None,
    measured: Measurement,
    train_iters: int | None,
    play_words: str,
) -> Outcome:
    """Decide a run's outcome: from its nodes' endings, the first cause, and what was measured.

    A run that all nodes ended well, at its last iteration, is ok whatever came meanwhile (LATE).
    """
    trained = bool(measured.intervals)
    reached = max((interval.iteration for interval in measured.intervals), default=0)
    of = planned(train_iters, measured.facts, reached)
    short = not trained or is_short(reached, spacing(measured.intervals), of)
    bad = first_bad(endings)
    finished = bad is None and len(endings) >= nodes and of is not None and not short
    lacks = incomplete(endings)
    if halt is not None and not (finished and halt.cause in LATE):
        cause, ending = halt.cause, halt.message
    elif bad is not None:
        cause, ending = endings[bad].cause, f"{bad}: {endings[bad].words}"
    elif len(endings) < nodes:
        cause = Cause.LAUNCH_ERROR
        ending = play_words or f"{nodes - len(endings)} of {nodes} nodes gave no answer"
    elif not short:
        return learned(Outcome("ok", "", printable(lacks)), measured)
    elif lacks:  # what is missing may hold the rest
        cause = Cause.LAUNCH_ERROR
        ending = f"the launcher ended with exit code 0, its log at iteration {reached}"
    elif not trained:
        cause, ending = (
            Cause.NO_STEP,
            "the launcher ended normally (exit code 0), but the log has no step",
        )
    else:
        cause = Cause.STOPPED_EARLY
        ending = f"the launcher ended with exit code 0 at iteration {reached} of {of}"
    ending = printable(f"{ending}; {lacks}" if lacks else ending)
    rule = cause_named(cause)
    untrained = not trained and cause != Cause.NO_STEP
    status = "did_not_run" if untrained else rule.status if rule else "failed"
    return Outcome(status, cause, ending, ending)


def learned(ended: Outcome, measured: Measurement) -> Outcome:
    """Return an ok outcome as it is, or as diverged where the last loss is not finite."""
    at = diverged_at(measured.intervals)
    if ended.status != "ok" or at is None:
        return ended
    cause = Cause.NAN_LOSS
    reason = (
        f"the loss was NaN or infinite at iteration {at}, the last that logged one: lower lr, or"
        " check precision and data"
    )
    return replace(ended, status=cause.status, cause=cause, reason=reason, ending=reason)


def with_verdict(ended: Outcome, verdict: Verdict | None, last_words: str) -> Outcome:
    """Add what the logs say: the first cause with its evidence, else the last words.

    `verdict` is None where the logs were not asked (node.causes.EXPLAINED).
    """
    ended = replace(ended, diagnosis=None, evidence=None, rules=rules())
    if verdict and ended.cause == Cause.TIME_LIMIT and STATUSES[verdict.status].by_limit:
        verdict = None
    if verdict and verdict.closed and ended.cause == Cause.STOPPED_EARLY:
        reason = f"{ended.ending}, as its log says: {verdict.closed}"
        return Outcome(
            *("ok", "", printable(reason)),
            rules=ended.rules,
            started_at=ended.started_at,
            wall_s=ended.wall_s,
            queued_s=ended.queued_s,
        )
    if verdict and verdict.path is not None:
        if verdict.status == "connection_lost" and _BY_KILL in ended.ending:
            who = "" if "the kernel killed" in ended.ending else _WHO_KILLS
            reason = printable(f"{ended.ending}{who}; the others then lost their connection to it")
            return replace(ended, reason=reason, diagnosis="killed")
        return replace(
            ended,
            status=_FAILED.get(ended.status, ended.status),
            reason=f"{ended.ending}: {verdict.sentence}",
            last_words=printable(verdict.words)[:300],
            diagnosis=verdict.status,
            evidence=Place(InsidePath(verdict.name), verdict.line),
        )
    printed = ended.cause == Cause.EXIT and last_words
    reason = f"{ended.ending}: {last_words}" if printed else ended.ending
    return replace(ended, reason=printable(reason), last_words=last_words)


def is_finished(outcome: Outcome | None) -> bool:
    """Return whether bench leaves a run with this outcome alone, unless asked for it again."""
    if outcome is None or (outcome.status == UNREADABLE and not outcome.cause):
        return False
    cause = cause_named(outcome.cause)
    return cause is None or not cause.again


def last_words(tail: bytes) -> str:
    """Find the line of a log's tail that says most: its first error, else its last line; 300
    letters.

    The first, for others follow from it; torchrun's own report of the end is passed over.
    """
    lines = []
    for line in re.split(r"[\r\n]+", tail.decode("utf-8", "replace")):
        clean = re.sub(r"^\[(?:default|rank)?\d+\]:\s?", "", printable(line))
        if clean and not _NOISE.search(clean):
            lines.append(clean)
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors[0] if errors else lines[-1] if lines else "")[:300]
