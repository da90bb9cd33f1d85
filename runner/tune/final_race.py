"""The last candidates take turns until the fastest is known, or they are equal. Pure.

Each finalist makes long runs in turns, so that a machine that drifts disturbs all alike. After each
run the leader is compared with each other finalist by Welch's interval of compare
(figures/between_runs.py). The intervals are widened so that all of them hold together in 95 of 100
searches: the error is divided by the number of comparisons (Bonferroni), which is the number of
other finalists times that of the looks that MOST_REPEATS allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from runner.figures.between_runs import FEWEST_RUNS, of_values, rate_difference

MOST_REPEATS = 5  # long runs of a finalist


@dataclass(frozen=True)
class SearchEnd:
    """Why a search ended, and with what.

    decided: the winner is faster than each other finalist. equal: finalists are within the margin
    of the fastest, and the one with least memory wins. undecided: the fastest so far, MOST_REPEATS
    made. alone: there is one finalist. none_ran: no winner.
    """

    why: Literal["decided", "equal", "undecided", "alone", "none_ran"]
    winner: str | None = None  # id


def race(
    times: Mapping[str, Sequence[float]], memory_mib: Mapping[str, float], margin_percent: float
) -> str | SearchEnd:
    """Return the id whose turn it is, or how the race ended.

    `times` are s per step of the finalists' long runs, at least one each, by id.
    """
    leader = min(times, key=lambda finalist: fmean(times[finalist]))
    challengers = [finalist for finalist in times if finalist != leader]
    if not challengers:
        return SearchEnd("alone", leader)
    looks = len(challengers) * (MOST_REPEATS - 1)
    verdicts = {
        challenger: _verdict(times[leader], times[challenger], looks, margin_percent)
        for challenger in challengers
    }
    if behind := [other for other in challengers if verdicts[other] == "open"]:
        turn = min([leader, *behind], key=lambda finalist: len(times[finalist]))
        return turn if len(times[turn]) < MOST_REPEATS else SearchEnd("undecided", leader)
    if equals := [other for other in challengers if verdicts[other] == "equal"]:
        return SearchEnd("equal", _least_memory([leader, *equals], memory_mib))
    return SearchEnd("decided", leader)


def _verdict(
    ours: Sequence[float], theirs: Sequence[float], looks: int, margin: float
) -> Literal["faster", "equal", "open"]:
    ends = rate_difference(of_values(ours), of_values(theirs), comparisons=looks).interval
    if ends is None or min(len(ours), len(theirs)) < FEWEST_RUNS:
        return "open"
    if -margin <= ends[0] and ends[1] <= margin:
        return "equal"
    return "faster" if ends[0] > 0 else "open"


def _least_memory(equals: Sequence[str], memory_mib: Mapping[str, float]) -> str:
    """Choose among equals; the fastest where the memory of one is unknown."""
    if any(finalist not in memory_mib for finalist in equals):
        return equals[0]
    return min(equals, key=lambda finalist: memory_mib[finalist])
