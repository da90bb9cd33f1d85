"""How much training a run needs to a loss, and whether two settings learn alike. Pure.

*Reached*: at the first iteration where the smoothed loss is at or below the target. A single loss
is noise, and a mean over the past lags, by more where a log has fewer lines. So each loss is put at
the middle of the iterations that it is the mean of, and is smoothed with its neighbours on both
sides: twice by the mean of what lies within REACH of its iteration, and at least of three, so that
weights fall off to both sides and the figure does not hang on how often a log has a loss. Between
two losses the line through them counts; it is known to half a logged line all the same. A run
that does not get there is censored: it has no figure, only the iterations that it trained.

*A cell's figure* is the median of its runs, one a seed, with the 95 % interval that order
statistics give (David and Nagaraja 2003, Order Statistics, 7.1): no shape is assumed, and a
censored run counts as later than all that are known. Fewer than six runs give no interval.

*Alike*: MLPerf's rule of reference convergence points compares the epochs that runs of a submission
need with those of a reference, by a one-sided t-test at 5 %, and refuses what converges too fast
(mlcommons/logging, mlperf_logging/rcp_checker/rcp_checker.py, _find_p_value). Here the samples to
the target are compared by ranks (Wilcoxon 1945, Biometrics Bulletin 1(6); exact, ties and all, up
to EXACT runs, else the normal approximation): a t-test has no place for a run that never arrives,
which by rank is the last. Two one-sided tests, for slower and for faster, share LEVEL.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist, median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from runner.figures.between_runs import CONFIDENCE_PERCENT
from runner.figures.counted_steps import step_time_ms
from runner.figures.curves import Spans, loss_kind, spans_of
from runner.figures.power import samples_between
from runner.terms.cell import SEED
from runner.terms.record import Record

FEWEST = 5  # logged losses
REACH = 0.05  # of an iteration, to both sides
LARGEST = 1e6  # loss over target that counts
LEVEL = 0.05
EXACT = 60
Floats = NDArray[np.float64]
# Runs that trained to their end: one that diverged did not get to the loss, whatever it was like.
_ENDED = ("ok", "diverged")
QUANTITIES = ("iterations", "seconds")
_NO_TIME = "the log does not have the time of each iteration up to the loss"


@dataclass(frozen=True)
class Arrival:
    """Where one run reached the loss: `iteration` None is not in the `trained` ones.

    `every` is how many iterations a logged loss covers (the median), `samples` those of an
    iteration (the mean up to there), `repeat` the run's number in its cell.
    """

    iteration: int | None
    trained: int
    every: float = 1
    samples: float = 1
    seed: int | None = None
    repeat: int = 1


@dataclass(frozen=True)
class Middle:
    """The median of runs; `low` and `high` are None with too few runs, or too few that
    reached it.
    """

    median: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class TimeToTarget:
    """What a cell's runs need to a loss; each of QUANTITIES that is not there has its reason."""

    loss: float
    arrivals: tuple[Arrival, ...] = ()
    figures: Mapping[str, Middle] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def reached(self) -> int:
        """How many runs got there."""
        return sum(arrival.iteration is not None for arrival in self.arrivals)

    def figure(self, name: str) -> float | None:
        """Return the median of one of QUANTITIES."""
        return self.figures[name].median if name in self.figures else None

    @property
    def within(self) -> float:
        """How many iterations off each arrival may be: half a logged line."""
        return max((arrival.every / 2 for arrival in self.arrivals), default=0.0)

    @property
    def not_reached(self) -> str:
        """Which did not, for people; empty where all did."""
        late = [arrival.trained for arrival in self.arrivals if arrival.iteration is None]
        if not late:
            return ""
        trained = f"{min(late)}" if min(late) == max(late) else f"{min(late)} to {max(late)}"
        of = f" by {len(late)} of {len(self.arrivals)} runs" if len(self.arrivals) > 1 else ""
        return f"not reached in {trained} iterations{of}"


@dataclass(frozen=True)
class Alike:
    """Whether ours learn like theirs; `verdict` None where that was not tested, for `why_not`.

    `p` is of the one-sided test that the verdict rests on, the smaller one where they are alike.
    """

    verdict: Literal["alike", "slower", "faster"] | None
    p: float | None = None
    why_not: str = ""

    @property
    def words(self) -> str:
        """For a table: a word or two."""
        return f"{self.verdict} (p {self.p:.2g})" if self.verdict and self.p is not None else ""

    def sentence(self, baseline: str) -> str:
        """For a note: how the other one, called `baseline`, compares; a clause."""
        if self.p is None:
            return f"time to the target loss not compared: {self.why_not}"
        if self.verdict == "alike":
            return f"learns like {baseline} (one-sided p {self.p:.2g})"
        return f"learns {self.verdict} than {baseline} (one-sided p {self.p:.2g})"


def time_to_target(records: Sequence[Record]) -> TimeToTarget | None:
    """Compute what a cell's runs need to their target; None where the matrix names none."""
    target = records[0].target_loss if records else None
    if target is None:
        return None
    runs = [record for record in records if record.status in _ENDED]
    curves = [spans_of(run) for run in runs]
    fewest, why = min(map(len, curves), default=0), ""
    if not runs:
        why = "no run ended"
    elif fewest < FEWEST:
        why = f"{fewest} losses are logged, {FEWEST} are needed"
    elif late := next((run.system for run in runs if loss_kind(run) == "running"), None):
        why = f"{late} logs a running mean of the loss, which lags"
    if why:
        return TimeToTarget(target, missing=dict.fromkeys(QUANTITIES, why))
    arrivals = tuple(_arrival(run, curve, target) for curve, run in zip(curves, runs, strict=True))
    answer = TimeToTarget(target, arrivals)
    ends = [(run, end.iteration) for run, end in zip(runs, arrivals, strict=True)]
    seconds = [math.inf if at is None else _seconds(run, at) for run, at in ends]
    known = [value for value in seconds if value is not None]
    iterations = [math.inf if at is None else float(at) for _, at in ends]
    figures = {
        name: middle
        for name, values in (("iterations", iterations), ("seconds", known))
        if (middle := _middle(values, independent=_differ(arrivals)))
    }
    missing = {name: answer.not_reached for name in QUANTITIES if name not in figures}
    if len(known) < len(seconds):
        figures.pop("seconds", None)
        missing["seconds"] = _NO_TIME
    return TimeToTarget(target, arrivals, figures, missing)


def _arrival(run: Record, curve: Spans, target: float) -> Arrival:
    reached_at = arrival(curve, target, 1, run.parameters.get(SEED), run.repeat)
    up_to = reached_at.iteration or reached_at.trained
    return replace(reached_at, samples=samples_between(run, 0, up_to) / up_to or 1)


def arrival(
    curve: Spans, target: float, samples: float = 1, seed: int | None = None, repeat: int = 1
) -> Arrival:
    """Find where a run reached the loss, of at least FEWEST logged ones."""
    spans = sorted(curve, key=lambda span: span[1])
    middles = np.array([(begin + 1 + end) / 2 for begin, end in spans])
    most = LARGEST * max(abs(target), 1)  # a sum over more would lose the others' digits
    losses = np.clip(np.array([curve[span] for span in spans], np.float64), -most, most)
    losses[[not math.isfinite(curve[span]) for span in spans]] = np.nan
    at = _crossing(*_smoothed(*_smoothed(middles, losses)), target)
    ends = [end for _, end in spans]
    every = float(np.median(np.diff(ends, prepend=0)))
    reached_at = None if at is None else max(1, math.floor(at + 0.5))
    return Arrival(reached_at, ends[-1], every, samples, seed, repeat)


def _smoothed(at: Floats, losses: Floats) -> tuple[Floats, Floats]:
    """Return the means of iterations and losses within REACH of each loss, and at least of its two
    neighbours; NaN where one is not a number.
    """
    index = np.arange(1, len(at) - 1)
    low = np.minimum(np.searchsorted(at, at[index] * (1 - REACH)), index - 1)
    high = np.maximum(np.searchsorted(at, at[index] * (1 + REACH), "right"), index + 2)
    lost = np.isnan(losses)

    def mean(values: Floats) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(values)])
        result: Floats = (total[high] - total[low]) / (high - low)
        return result

    smooth = mean(np.where(lost, 0.0, losses))
    return mean(at), np.where(mean(lost.astype(np.float64)) > 0, np.nan, smooth)


def _crossing(at: Floats, losses: Floats, target: float) -> float | None:
    """Return where the losses first are at the target, on the line from the one before."""
    there = np.flatnonzero(losses <= target)  # NaN is not
    if not len(there):
        return None
    index = int(there[0])
    before = losses[index - 1] if index else np.nan
    if np.isnan(before):
        return float(at[index])
    share = (before - target) / (before - losses[index])
    return float(at[index - 1] + share * (at[index] - at[index - 1]))


def _seconds(run: Record, iteration: int) -> float | None:
    """Add up the time of the iterations up to this one, warm-up included; None where the log has
    not all of them.
    """
    total, covered = 0.0, 0
    for interval in run.measurement.intervals:
        before = interval.iteration - interval.iterations
        share = min(interval.iteration, iteration) - before
        time = step_time_ms(interval, run.global_batch_size)
        if share > 0 and time is not None:
            total += share * time / 1000
            covered += share
    return total if covered == iteration else None


def _differ(arrivals: Sequence[Arrival]) -> bool:
    """Return whether the runs are of several seeds, and no two of one."""
    seeds = {arrival.seed for arrival in arrivals}
    return None not in seeds and len(seeds) == len(arrivals)


def _middle(values: Sequence[float], *, independent: bool) -> Middle | None:
    """Return the median, with its interval over `independent` runs; None where it is censored."""
    ordered = sorted(values)
    middle = median(ordered) if ordered else math.inf
    if math.isinf(middle):
        return None
    outside = _outside(len(ordered)) if independent else None
    if outside is None:
        return Middle(middle)
    high = ordered[-1 - outside]
    return Middle(middle, ordered[outside], None if math.isinf(high) else high)


def _outside(count: int) -> int | None:
    """Return how many of `count` values lie beyond each end of the interval of their median.

    The number below it is binomial, with one half. None where the outermost do not hold it.
    """
    tail, beyond = 0.0, None
    for rank in range(count // 2):
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - CONFIDENCE_PERCENT / 100:
            break
        beyond = rank
    return beyond


def compare_learning(
    ours: TimeToTarget | None, theirs: TimeToTarget | None, differs: str
) -> Alike | None:
    """Compare a cell with its baseline; None where no target is named.

    `differs` says why the two need not learn alike (parity.task_differs), or nothing.
    """
    if ours is None or theirs is None:
        return None
    for side in (ours, theirs):
        if not side.arrivals:
            return Alike(None, why_not=side.missing["iterations"])
    return Alike(None, why_not=differs) if differs else learn_alike(ours.arrivals, theirs.arrivals)


def learn_alike(ours: Sequence[Arrival], theirs: Sequence[Arrival]) -> Alike:
    """Test whether ours need more samples to the loss than theirs, or fewer."""
    count = len(ours) + len(theirs)
    if not _differ(ours) or not _differ(theirs):
        return Alike(None, why_not="the runs of a cell are not of a seed each (`seeds`)")
    orders = 2 / LEVEL  # of fewer, the most extreme one is no rare one
    if math.comb(count, len(ours)) < orders:
        least = next(n for n in range(1, 9) if math.comb(2 * n, n) >= orders)
        return Alike(None, why_not=f"{least} seeds of each are needed")
    if len({arrival.every for arrival in (*ours, *theirs)}) > 1:
        return Alike(None, why_not="their losses are not logged equally often")
    horizon = min(arrival.trained * arrival.samples for arrival in (*ours, *theirs))
    needed = [_needed(arrival, horizon) for arrival in (*ours, *theirs)]
    if all(map(math.isinf, needed)):
        return Alike(None, why_not="no run of either reached the loss")
    ranks = _doubled_ranks(needed)
    slower = _tail(ranks, len(ours))
    faster = _tail([2 * (count + 1) - rank for rank in ranks], len(ours))
    p = min(slower, faster)
    if p > LEVEL / 2:
        return Alike("alike", p)
    return Alike("slower" if slower < faster else "faster", p)


def _needed(arrival: Arrival, horizon: float) -> float:
    """Return the samples to the loss; infinite beyond what all runs trained."""
    if arrival.iteration is None:
        return math.inf
    samples = arrival.iteration * arrival.samples
    return samples if samples <= horizon else math.inf


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [2 * ordered.index(value) + ordered.count(value) + 1 for value in values]


def _tail(ranks: Sequence[int], ours: int) -> float:
    """Return how probable so large a sum of the first `ours` ranks is, were all of one kind."""
    observed, count = sum(ranks[:ours]), len(ranks)
    if count > EXACT:
        mean = ours * (count + 1)
        spread = math.sqrt(ours * (count - ours) / (count - 1) * float(np.var(ranks)))
        return 1 - NormalDist().cdf((observed - 1 - mean) / spread) if spread else 1.0
    ways = np.zeros((ours + 1, sum(ranks) + 1))  # choices of so many ranks that have that sum
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank].copy()
    return float(ways[ours, observed:].sum() / ways[ours].sum())
