"""The runs that a search has made, and what they say of each candidate. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median, median_low, variance
from typing import Literal

from runner.study.study import Observation, RunEnding

Length = Literal["short", "long"]

OUT = ("refused", "out_of_memory", "failed")  # endings with which no candidate wins
TRIES = 3  # of a candidate whose node was lost
APART = 0.15  # two runs of one candidate that differ by more: one of them was disturbed
_NOISE = 0.015  # between runs, before any candidate was repeated
_NOISE_RUNS = 4  # repeats that this figure counts as


@dataclass(frozen=True)
class Trial:
    """One finished run of a candidate. A search is the list of its trials, in their order."""

    candidate: str  # id
    length: Length
    # `ended_early`: slower than the leader; `refused`: it may not win (it diverged, has another
    # loss, leaves too little memory).
    ending: RunEnding
    # Mean time per counted step (of ended_early: until it was stopped) per TuneCandidate.work, or
    # another figure of which less is better; None, 0, NaN or infinite: it failed.
    figure: float | None = None
    memory_mib: float | None = None  # peak of the fullest device
    reason: str = ""  # why it was refused or failed, for people
    run: Observation | None = None  # None: pretended


@dataclass
class Standing:
    """What the trials of one candidate say."""

    short: list[float] = field(default_factory=list)  # s per step, of runs that ended ok
    long: list[float] = field(default_factory=list)
    ended_early: list[float] = field(default_factory=list)  # s per step, when it was stopped
    losses: int = 0  # lost nodes since the last run that ended
    lost: Length | None = None  # the run that has to be repeated for that
    out: str = ""  # why it cannot win any more

    @property
    def measured(self) -> bool:
        """Whether its time is known."""
        return bool(self.short or self.long or self.ended_early)

    @property
    def started(self) -> bool:
        """Whether it has been measured or given up."""
        return self.measured or bool(self.out)

    @property
    def single(self) -> bool:
        """Whether its time is that of one short run."""
        return not self.long and len(self.short) + len(self.ended_early) == 1

    def time(self, ratio: float) -> float:
        """Return its time per step in s: of long runs if there are any, else short * ratio."""
        if self.long:
            return fmean(undisturbed(self.long))
        return ratio * fmean(undisturbed(self.short or self.ended_early))

    def unlike(self, ratio: float) -> bool:
        """Whether its long runs are unlike its short ones: it says nothing of other candidates."""
        both = bool(self.short and self.long)
        return both and _apart([self.time(1), ratio * fmean(undisturbed(self.short))])

    def unclear(self, ratio: float) -> Length | None:
        """Return which run has to be repeated because two contradict each other; else None."""
        if len(self.long) == 1 and self.unlike(ratio):
            return "long"
        if len(self.long) == 2 and _apart(self.long):
            return "long"
        return "short" if len(self.short) == 2 and not self.long and _apart(self.short) else None

    def add(self, trial: Trial) -> None:
        """Take one more trial in."""
        time = trial.figure if trial.figure and 0 < trial.figure < math.inf else None
        if trial.ending == "lost_node":
            self.losses, self.lost = self.losses + 1, trial.length
            lost = trial.reason or "its node was lost"
            self.out = self.out or (lost if self.losses >= TRIES else "")
            return
        self.losses, self.lost = 0, None
        if time and trial.ending in ("ok", "ended_early"):
            early = trial.ending == "ended_early"
            times = self.long if trial.length == "long" else self.short
            (self.ended_early if early else times).append(time)
        else:
            self.out = self.out or trial.reason or trial.ending.replace("_", " ")


def undisturbed(times: Sequence[float]) -> list[float]:
    """Leave out one run of three or more that is slow while the others agree: a slow node."""
    faster = sorted(times)[:-1]
    if len(times) < 3 or max(times) <= (1 + APART) * median(faster) or _apart(faster):
        return list(times)
    return [time for time in times if time != max(times)]


def _apart(times: Sequence[float]) -> bool:
    return max(times) > (1 + APART) * min(times)


def standings(ids: Sequence[str], trials: Sequence[Trial]) -> list[Standing]:
    """Sum the trials up, one per id. A trial of an unknown candidate is left out."""
    by_id = {id_: Standing() for id_ in ids}
    for trial in trials:
        if trial.candidate in by_id:
            by_id[trial.candidate].add(trial)
    return list(by_id.values())


def long_per_short(every: Sequence[Standing]) -> float:
    """Return how long a step of a long run takes, relative to a short one's: 1 until 3 show it."""
    both = [
        fmean(standing.long) / fmean(standing.short)
        for standing in every
        if standing.long and standing.short
    ]
    return median_low(both) if len(both) >= 3 else 1.0


def noise(every: Sequence[Standing]) -> float:
    """Estimate the standard deviation between runs of one candidate, as a share of its time."""
    squares, count = _NOISE_RUNS * _NOISE**2, _NOISE_RUNS
    for standing in every:
        for times in (undisturbed(standing.short), undisturbed(standing.long)):
            if len(times) > 1:
                squares += variance(map(math.log, times)) * (len(times) - 1)
                count += len(times) - 1
    return math.sqrt(squares / count)
