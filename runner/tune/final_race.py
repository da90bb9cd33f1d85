"""The last candidates take turns until the fastest is known, or they are equal. Pure.

Each finalist makes long runs in turns, so that a machine that drifts disturbs all alike. After each
run the leader is compared with each other finalist by Welch's interval of compare
(figures/between_runs.py). The intervals are widened so that all of them hold together in 95 of 100
searches: the error is divided by the number of comparisons (Bonferroni), which is the number of
other finalists times that of the looks that most_repeats allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from runner.figures.between_runs import FEWEST_RUNS, of_values, rate_difference


@dataclass(frozen=True)
class FinalistDifference:
    """How much faster the winner is than another finalist, in percent of the other's speed."""

    other: str  # id
    percent: float
    interval: tuple[float, float] | None  # widened for all comparisons; None: too few runs
    verdict: Literal["faster", "equal", "open"]


@dataclass(frozen=True)
class RaceResult:
    """What the runs of the finalists say: whose turn it is, or how the race ended."""

    why: Literal["decided", "equal", "undecided", "alone"]
    fastest: str  # id; of equals the one with least memory
    differences: tuple[FinalistDifference, ...]
    turn: str | None  # who runs next; None: the race has ended


def race(
    times: Mapping[str, Sequence[float]],
    memory_mib: Mapping[str, float],
    margin_percent: float,
    most_repeats: int,
) -> RaceResult:
    """Judge the finalists by their long runs (s per step, at least one each, by id)."""
    leader = min(times, key=lambda finalist: fmean(times[finalist]))
    challengers = [finalist for finalist in times if finalist != leader]
    looks = len(challengers) * max(most_repeats - 1, 1)
    differences = tuple(
        _difference(times[leader], challenger, times[challenger], looks, margin_percent)
        for challenger in challengers
    )
    if not challengers:
        return RaceResult("alone", leader, (), None)
    equals = [difference.other for difference in differences if difference.verdict != "faster"]
    behind = [difference.other for difference in differences if difference.verdict == "open"]
    if behind:
        turn = min([leader, *behind], key=lambda finalist: len(times[finalist]))
        if len(times[turn]) < most_repeats:
            return RaceResult("undecided", leader, differences, turn)
        return RaceResult("undecided", leader, differences, None)
    if not equals:
        return RaceResult("decided", leader, differences, None)
    return RaceResult("equal", _least_memory([leader, *equals], memory_mib), differences, None)


def _difference(
    ours: Sequence[float], challenger: str, theirs: Sequence[float], looks: int, margin: float
) -> FinalistDifference:
    estimate = rate_difference(of_values(ours), of_values(theirs), comparisons=looks)
    ends = estimate.interval
    if ends is None or min(len(ours), len(theirs)) < FEWEST_RUNS:
        return FinalistDifference(challenger, estimate.percent, None, "open")
    if -margin <= ends[0] and ends[1] <= margin:
        return FinalistDifference(challenger, estimate.percent, ends, "equal")
    return FinalistDifference(
        challenger, estimate.percent, ends, "faster" if ends[0] > 0 else "open"
    )


def _least_memory(equals: Sequence[str], memory_mib: Mapping[str, float]) -> str:
    """Choose among equals; the fastest where the memory of one is unknown."""
    if any(finalist not in memory_mib for finalist in equals):
        return equals[0]
    return min(equals, key=lambda finalist: memory_mib[finalist])
