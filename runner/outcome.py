"""How a run ended, from what its nodes and its log say. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.lines import printable
from runner.records import Measurement

# Causes that the launch plugin and the supervisor use, and the status each gives a run that
# trained; any other is `failed`. A run that never trained a step is did_not_run, whatever ended it.
STATUS_OF_CAUSE: Mapping[str, str] = {
    "node_lost": "node_lost",
    "time_limit": "timed_out",
    "interrupted": "interrupted",
    "control_lost": "interrupted",
    "stopped": "interrupted",
}
# What ended these runs lies outside the cell: bench runs them again by itself.
OUTSIDE = frozenset(
    {
        *("node_lost", "interrupted", "control_lost", "stopped"),
        *("unreachable", "node_busy", "port_in_use", "launch_error", "supervisor_lost"),
    }
)

_ERROR = re.compile(r"^(?:\w+ error: |(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b(?::|$))")
_NOISE = re.compile(
    r"ChildFailedError|SignalException|^[EWI]\d{4} |^[=\-~^ ]*$|^\[trainbench:"
    r"|^error_file: <N/A>$|^traceback : To enable traceback see"
)


@dataclass(frozen=True)
class Outcome:
    """A status of records.STATUSES, the cause word, one sentence, and the log's own words."""

    status: str
    cause: str
    reason: str
    last_words: str = ""


def decide(
    *,
    nodes: int,
    done: Mapping[str, Mapping[str, Any]],
    halt: Mapping[str, Any] | None,
    measured: Measurement,
    train_iters: int | None,
    last_words: str,
    play_words: str,
) -> Outcome:
    """The outcome of a run: its nodes' endings, the first cause, and what was measured."""
    trained = bool(measured.intervals)
    if halt is not None:
        cause, reason = str(halt["cause"]), str(halt["message"])
    elif len(done) < nodes:
        cause = "launch_error"
        reason = play_words or f"{nodes - len(done)} of {nodes} nodes gave no answer"
    else:
        cause, reason = "", ""
    if not cause and not trained:
        cause, reason = "no_step", "the launcher ended with exit code 0 and logged no step"
    reached = max((interval.iteration for interval in measured.intervals), default=0)
    if not cause and train_iters is not None and reached < train_iters:
        cause = "stopped_early"
        reason = f"the launcher ended with exit code 0 at iteration {reached} of {train_iters}"
    if not cause:
        return Outcome("ok", "", "")
    if cause == "exit" and last_words:
        reason = f"{reason}: {last_words}"
    status = STATUS_OF_CAUSE.get(cause, "failed") if trained else "did_not_run"
    return Outcome(status, cause, printable(reason), last_words)


def is_finished(outcome: Mapping[str, Any] | None) -> bool:
    """Whether bench leaves a run with this outcome.json alone, unless told --again."""
    return outcome is not None and outcome["cause"] not in OUTSIDE


def last_words(tail: bytes) -> str:
    """The line of a log's tail that says most: its first error, else its last line; 300 letters.

    The first, for others follow from it; torchrun's own report of the end is passed over.
    """
    lines = []
    for line in re.split(r"[\r\n]+", tail.decode("utf-8", "replace")):
        clean = re.sub(r"^\[(?:default|rank)?\d+\]:\s?", "", printable(line))
        if clean and not _NOISE.search(clean):
            lines.append(clean)
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors[0] if errors else lines[-1] if lines else "")[:300]
