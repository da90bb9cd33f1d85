"""What several runs say together: the interval of their mean, and the difference of two. Pure.

A cell's time is the mean of its runs' means (run_mean.py). The steps of one run tell how sure that
run is, and nothing about how runs differ, so that an interval takes two runs or more. Its half-
width is the largest of

- Student's t for n - 1 degrees of freedom times the standard error of the n means,
- what the runs' own steps leave open, since means may agree by chance, and
- UNEVEN_ALLOWANCE times the share of time that few or uneven slow steps take.

Where the runs of two cells took turns, `paired_difference` takes the differences of the pairs.
A difference of others is the ratio of two rates, by Welch's t (Welch 1947, Biometrika 34, 28) on
its logarithm, widened in the same way. Both are STOPPED times wider where runs were repeated until
their interval was short, which favours those that are alike by luck. `make coverage` measures how
often both are right.

There is neither, with the reason, where a side has one run; where slow steps that are few or uneven
take more than MOST_UNEVEN of the time, since nobody knows how often they come; and where the steps
have a long tail. Beside few or uneven slow steps a difference without an interval is still real if
it is larger than LARGE_CHANGE, than STEPS_FACTOR times what the steps leave open, and than the t of
the runs allows: steps that all take twice as long are not stalls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from runner.figures.run_mean import RunMean, quantile, quantile_80, quantile_of
from runner.terms.cell import FEWEST_REPEATS

CONFIDENCE_PERCENT = 95
FEWEST_RUNS = 2
FEWEST_SLOW = 5.0  # slow steps in effect, over all runs
EVEN = 0.9  # slow steps in effect for each one
SLOW_SHARE = 0.2  # of the squared distances: less, and slow steps do not decide how sure a mean is
MOST_UNEVEN = 0.01
UNEVEN_ALLOWANCE = 3.0
LONG_TAIL = 0.3  # skewness
LARGE_CHANGE = math.log(1.25)  # 25 % faster, 20 % slower
STEPS_FACTOR = 4.0
STOPPED = 1.2  # wider: runs repeated until their interval is short are alike by luck, too
MOST_REPEATS = 100

ONE_RUN = "one run does not show how runs differ"
FEW_SLOW = "few or uneven slow steps take {:.1%} of the time: more runs or steps are needed"
TAIL = "step times have a long tail, so that their mean is unknown"
_FEW_SLOW_BEGINS = FEW_SLOW.partition("{")[0]
_NORMAL = quantile(math.inf)
_MOST_CHANGE = 100.0  # of the logarithm: no two machines differ by that


@dataclass(frozen=True)
class CellTimes:
    """What intervals and differences are made of: the mean times of a cell's runs."""

    means: tuple[float, ...]  # of each run, in one unit
    open_by_steps: float = 0.0  # half-width that the steps alone leave open, as a share of the mean
    missing: str = ""  # why there is no interval
    widening: float = 1.0  # of the standard error by the runs

    @property
    def few_slow(self) -> bool:
        """Whether there is no interval since slow steps are few or uneven."""
        return self.missing.startswith(_FEW_SLOW_BEGINS)

    @property
    def mean(self) -> float:
        """The cell's time: each run counts once."""
        largest = max(self.means)  # so that no sum overflows
        return largest * math.fsum(mean / largest for mean in self.means) / len(self.means)

    @property
    def error(self) -> float:
        """The standard error of the mean by the runs, as a share of it; 0 of one run."""
        count = len(self.means)
        if count < FEWEST_RUNS:
            return 0.0
        middle = self.mean
        squares = math.fsum((mean / middle - 1) ** 2 for mean in self.means)
        return self.widening * math.sqrt(squares / (count - 1) / count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean; `missing` says why it is missing."""
        if self.missing:
            return None
        half = max(quantile(len(self.means) - 1) * self.error, self.open_by_steps)
        return self.mean * max(1 - half, 0.0), self.mean * (1 + half)

    @property
    def variance(self) -> float:
        """The variance of one run's mean, as far as runs or else their steps show it."""
        by_steps = (self.open_by_steps / _NORMAL) ** 2
        return len(self.means) * max(self.error**2, by_steps)


@dataclass(frozen=True)
class RateDifference:
    """How much larger a rate is than another, in percent of the other."""

    percent: float
    interval: tuple[float, float] | None = None  # 95 %, of `percent`
    visible_percent: float | None = None  # the smallest difference seen in 80 of 100 cases
    missing: str = ""  # why there is no interval
    large: bool = False  # without an interval: far larger than few or uneven slow steps explain

    @property
    def real(self) -> bool:
        """Whether the interval leaves 0 out, or a difference without one is `large`."""
        if self.interval is None:
            return self.large
        return not self.interval[0] <= 0 <= self.interval[1]

    @property
    def half(self) -> float:
        """The larger half of the interval; 0 without one."""
        if self.interval is None:
            return 0.0
        return max(self.percent - self.interval[0], self.interval[1] - self.percent)


def cell_times(runs: Sequence[RunMean], *, stopped: bool = False) -> CellTimes:
    """Sum up the runs of a cell; `stopped`: they were repeated until their interval was short."""
    missing = ONE_RUN if len(runs) < FEWEST_RUNS else steps_unusable(runs)
    widening = STOPPED if stopped else 1.0
    return CellTimes(tuple(run.mean for run in runs), _open_by_steps(runs), missing, widening)


def of_values(values: Sequence[float]) -> CellTimes:
    """Take one figure of each run as it is: the memory of a process, say."""
    return CellTimes(tuple(values), missing=ONE_RUN if len(values) < FEWEST_RUNS else "")


def rate_difference(
    ours: CellTimes, theirs: CellTimes, *, comparisons: float = 1
) -> RateDifference:
    """Compare our rate with theirs; of several `comparisons`, all intervals hold together."""
    change = math.log(theirs.mean) - math.log(ours.mean)
    if abs(change) > _MOST_CHANGE:
        return RateDifference(_percent(change), missing="the two are too far apart to compare")
    if missing := _too_few_runs(ours, theirs):
        return RateDifference(_percent(change), missing=missing)
    error = math.hypot(ours.error, theirs.error)
    return _difference(ours, theirs, change, error, _freedom((ours, theirs)), comparisons)


def repeats_to_see(ours: CellTimes, theirs: CellTimes, percent: float) -> int | None:
    """Return how many repeats a side show a difference of `percent` in 80 of 100 cases.

    None: more than MOST_REPEATS. A single run shows its steps only: it may take more.
    """
    variances = ours.variance, theirs.variance
    together = sum(variances)
    squares = sum(variance**2 for variance in variances)
    weight = together**2 / squares if squares else 2.0
    for count in range(FEWEST_REPEATS, MOST_REPEATS + 1):
        freedom = (count - 1) * weight
        error = math.sqrt(together / count)
        if (quantile(freedom) + quantile_80(freedom)) * error <= math.log1p(percent / 100):
            return count
    return None


def comparisons_for(alarm_percent: float, count: int) -> float:
    """Return the `comparisons` with which `count` differences together are called worse by chance
    in that many of 100 cases: each interval has as much on its other side.
    """
    return max((100 - CONFIDENCE_PERCENT) / (2 * alarm_percent) * count, 1.0)


def paired_difference(
    ours: CellTimes, theirs: CellTimes, *, comparisons: float = 1
) -> RateDifference:
    """Compare our rate with theirs, whose runs took turns: `means` are those of pairs, in order.

    What slows both runs of a pair alike cancels: Student's t on the pairs' differences of
    logarithms (Student 1908, Biometrika 6, 1). Raises ValueError where they are not as many.
    """
    if len(ours.means) != len(theirs.means):
        raise ValueError("runs without a partner")
    changes = _changes(ours, theirs)
    change = math.fsum(changes) / len(changes)
    if missing := _too_few_runs(ours, theirs):
        return RateDifference(_percent(change), missing=missing)
    error = _pairs_deviation(changes) / math.sqrt(len(changes))
    return _difference(ours, theirs, change, error, len(changes) - 1, comparisons)


def _too_few_runs(ours: CellTimes, theirs: CellTimes) -> str:
    """Say why a side cannot be compared, whatever the difference; empty if it can."""
    return next((side.missing for side in (ours, theirs) if len(side.means) < FEWEST_RUNS), "")


def _difference(
    ours: CellTimes,
    theirs: CellTimes,
    change: float,
    error: float,
    freedom: float,
    comparisons: float,
) -> RateDifference:
    """Return a difference, by its logarithm and the standard error of that."""
    by_steps = math.hypot(ours.open_by_steps, theirs.open_by_steps)
    wide = quantile_of(freedom, comparisons)
    half = max(wide * error, by_steps)
    if missing := ours.missing or theirs.missing:
        explained = by_steps > 0 and all(
            side.few_slow or not side.missing for side in (ours, theirs)
        )
        large = abs(change) > max(half, LARGE_CHANGE, STEPS_FACTOR * by_steps)
        return RateDifference(_percent(change), missing=missing, large=explained and large)
    visible = half * (1 + quantile_80(freedom) / wide)
    ends = _percent(change - half), _percent(change + half)
    return RateDifference(_percent(change), ends, _percent(visible))


def pairs_to_see(
    ours: CellTimes, theirs: CellTimes, percent: float, *, comparisons: float = 1
) -> int | None:
    """Return how many pairs show a difference of `percent` in 80 of 100 cases; None: more than
    MOST_REPEATS, or there are too few to tell.
    """
    if len(ours.means) < FEWEST_RUNS:
        return None
    deviation = _pairs_deviation(_changes(ours, theirs))
    for count in range(FEWEST_REPEATS, MOST_REPEATS + 1):
        wide = quantile_of(count - 1, comparisons) + quantile_80(count - 1)
        if wide * deviation / math.sqrt(count) <= math.log1p(percent / 100):
            return count
    return None


def _changes(ours: CellTimes, theirs: CellTimes) -> list[float]:
    """Return the logarithm of each pair's ratio of rates."""
    return [math.log(b) - math.log(a) for a, b in zip(ours.means, theirs.means, strict=True)]


def _pairs_deviation(changes: Sequence[float]) -> float:
    middle = math.fsum(changes) / len(changes)
    return math.sqrt(math.fsum((change - middle) ** 2 for change in changes) / (len(changes) - 1))


def steps_unusable(runs: Sequence[RunMean]) -> str:
    """Say why the steps of runs give no interval, however many they are; empty if they do."""
    uneven = _uneven_time(runs)
    if uneven > MOST_UNEVEN:
        return FEW_SLOW.format(uneven)
    tail = math.fsum(run.skew for run in runs) / len(runs)
    return TAIL if tail > LONG_TAIL and not _slow_decide(runs) else ""


def _percent(change: float) -> float:
    """Turn the logarithm of a ratio into percent; far more than anybody measures is infinite."""
    return math.expm1(change) * 100 if change < 700 else math.inf


def _freedom(sides: Sequence[CellTimes]) -> float:
    """Return the degrees of freedom: Welch's and Satterthwaite's; of unequal sides, where those are
    too many, the fewer side's own (Hsu 1938, Statistical Research Memoirs 2, 1).
    """
    counts = [len(side.means) for side in sides]
    if len(set(counts)) > 1:
        return float(min(counts) - 1)
    largest = max(side.error for side in sides)
    if not largest:
        return float(sum(counts) - len(counts))
    shares = [(side.error / largest) ** 2 for side in sides]
    parts = (share**2 / (len(side.means) - 1) for share, side in zip(shares, sides, strict=True))
    return float(sum(shares) ** 2 / math.fsum(parts))


def _open_by_steps(runs: Sequence[RunMean]) -> float:
    """Return the half-width that the runs' own steps leave open, as a share of the mean."""
    steps = _NORMAL * math.hypot(*(run.error for run in runs)) / len(runs)
    return max(steps, UNEVEN_ALLOWANCE * _uneven_time(runs))


def _uneven_time(runs: Sequence[RunMean]) -> float:
    """Return the share of time that slow steps take, if they are few or uneven, and decide."""
    if not _slow_decide(runs):
        return 0.0
    time = math.fsum(run.slow.time for run in runs)
    effective = time**2 / math.fsum(run.slow.squares for run in runs)
    enough = max(FEWEST_SLOW, EVEN * sum(run.slow.count for run in runs))
    return 0.0 if effective >= enough else time / sum(run.lines for run in runs)


def _slow_decide(runs: Sequence[RunMean]) -> bool:
    slow = math.fsum(run.slow.squares for run in runs)
    return slow > SLOW_SHARE * math.fsum(run.squares for run in runs)
