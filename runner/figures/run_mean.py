"""The mean of one run's steps, and how sure its own steps make it; Student's t for both. Pure.

Every figure of speed is a time over an amount of work: milliseconds of an iteration, seconds of a
sample. A run's mean is its whole counted time over its whole counted work, so that a step that is
slow now and then (a checkpoint, a second-order update each tenth step) is part of it.

*Half-width by steps*: half of the 95 % interval of that mean, if the same run went on for ever. It
is the larger of two estimates, because each misses what the other sees:

- as an autoregressive process of order 1: the standard error of independent steps, with the
  effective number of those, n (1 - r) / (1 + r), where r is the lag-1 autocorrelation. r is
  corrected for its bias in few steps, about (1 + 4 r) / n (Kendall 1954, Biometrika 41, 403), and
  raised by its own standard error, 1 / sqrt(n);
- by batch means (Law, Simulation Modeling and Analysis, 5th edition, 9.5.3): the standard error of
  the means of BATCHES batches.

It is unknown with fewer than FEWEST counted lines, or fewer than FEWEST_INDEPENDENT effectively
independent steps.

*Slow steps* are more than OUTSIDE robust standard deviations above the median. Their
effective number is (sum of e)^2 / (sum of e^2), e the time of each beyond the median: equal steps
count whole, and one that is larger than all others together counts as one (Kish 1965, Survey
Sampling, 8.2). If they come at equal distances (each tenth step), the only uncertainty about
them is half of one at the ends of the run: the two estimates are then made without them.

*Drift*: the mean of the second half of the counted steps minus that of the first, in percent, is
beyond noise when it is larger than DRIFT_PERCENT and than DRIFT_SIGMAS standard errors. The
standard error is that of the mean of what is left when a line, or the two halves' means, are taken
out of the steps (neighbours that are alike count less), the smaller of the two, doubled: a
difference of two halves has four times the variance of the mean of both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runner.figures.warmup import FEWEST as FEWEST_STEPS
from runner.figures.warmup import MAD_TO_SIGMA, RESOLUTION

Floats = NDArray[np.float64]
FEWEST = 32
FEWEST_INDEPENDENT = 24
BATCHES = 8
FEWEST_GAPS = 3  # between slow steps, to call them regular
OUTSIDE = 5.0
WIDE_TAIL = 0.1  # of the mean: the shape of a shorter tail is ignored
DRIFT_PERCENT = 2.0
DRIFT_SIGMAS = 3.0
_MOST_CORRELATION = 0.98
_ROUNDING = 1e-12  # of the mean: steps that differ by less are equal, whatever floats make of them
_Z = 1.959964  # the normal distribution's 97.5 % quantile, and Student's of so many degrees:
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)  # of 1 degree on
_Z80 = 0.841621  # the 80 % quantile
_T80 = (1.3764, 1.0607, 0.9785, 0.9410, 0.9195, 0.9057, 0.8960, 0.8889)


@dataclass(frozen=True)
class SlowSteps:
    """The slow steps of a run; times are shares of the run's mean step."""

    count: int = 0
    time: float = 0.0  # sum of what each takes beyond the median
    squares: float = 0.0  # sum of the squares of that


@dataclass(frozen=True)
class RunMean:
    """The mean of a run, in its own unit; all other times are shares of it."""

    mean: float
    lines: int  # counted
    half: float | None = None  # half-width by steps
    missing: str = ""  # why there is no half-width
    error: float = 0.0  # standard error by steps, not raised
    squares: float = 0.0  # sum of the squared distances of all lines from the mean
    skew: float = 0.0  # -1 to 1, of the 10th, 50th and 90th percentile; 0: no tail that matters
    slow: SlowSteps = SlowSteps()


def run_mean(times: Sequence[float], work: Sequence[float] | None = None) -> RunMean:
    """Compute the mean of `times`, each the mean of `work` units (iterations, samples).

    `times` are finite and above 0, per unit; without `work` all lines weigh alike.
    """
    series = np.asarray(times, np.float64)
    scale = float(series.max())  # so that no sum overflows
    series = series / scale
    weights = np.ones(len(series)) if work is None else np.asarray(work, np.float64) / max(work)
    mean = float(series @ weights / weights.sum())
    shares = series / mean
    distances = (shares - 1) * (weights / weights.mean())
    late = _late(shares)
    if regular(late):
        early_shares = shares - late
        residuals, of_slow = early_shares - early_shares.mean(), float(late.max()) / 2 / len(series)
    else:
        residuals, of_slow = distances, 0.0
    if float(np.abs(residuals).max()) < _ROUNDING:
        residuals = np.zeros_like(residuals)
    half, missing = half_width(residuals)
    return RunMean(
        mean=mean * scale,
        lines=len(series),
        half=None if half is None else math.hypot(half, 2 * of_slow),
        missing=missing,
        error=math.hypot(standard_error(residuals), of_slow),
        squares=float(distances @ distances),
        skew=_skew(shares),
        slow=SlowSteps(int(np.count_nonzero(late)), float(late.sum()), float(late @ late)),
    )


def half_width(distances: Floats) -> tuple[float | None, str]:
    """Return half of a mean's 95 % interval from the steps' distances to it, or None and why."""
    count = len(distances)
    if count < FEWEST:
        return None, f"{count} counted lines, {FEWEST} are needed"
    if not distances.any():
        return 0.0, ""
    independent = _independent(distances, raised=1 / math.sqrt(count))
    if independent < FEWEST_INDEPENDENT:
        return None, "neighbouring steps are too alike: too few of them are independent"
    size = count // BATCHES
    batches = distances[: size * BATCHES].reshape(BATCHES, size).mean(axis=1)
    of_batches = float(batches.std(ddof=1)) / math.sqrt(BATCHES)
    of_steps = float(distances.std(ddof=1)) / math.sqrt(independent)
    return max(quantile(independent - 1) * of_steps, quantile(BATCHES - 1) * of_batches), ""


def standard_error(distances: Floats) -> float:
    """Return the standard error of a mean, from the steps' distances to it; 0 of a single one."""
    if len(distances) < 2 or not distances.any():
        return 0.0
    return float(distances.std(ddof=1)) / math.sqrt(_independent(distances))


def _independent(distances: Floats, raised: float = 0.0) -> float:
    """Return the effective number of independent steps; `raised` is added to their correlation."""
    count, power = len(distances), float(distances @ distances)
    if not power:  # the squares are too small for a float
        return count
    neighbours = float(distances[1:] @ distances[:-1]) / power
    corrected = neighbours + (1 + 4 * neighbours) / count + raised
    alike = min(max(corrected, 0.0), _MOST_CORRELATION)
    return count * (1 - alike) / (1 + alike)


def _skew(shares: Floats) -> float:
    """Return the quantile skewness (Kelly 1947) of a tail that reaches beyond WIDE_TAIL, else 0."""
    low, middle, high = np.percentile(shares, (10, 50, 90)).tolist()
    return (high + low - 2 * middle) / (high - low) if high - middle > WIDE_TAIL else 0.0


def _late(shares: Floats) -> Floats:
    """Return what each slow step takes beyond the median, 0 for all others."""
    middle = float(np.median(shares))
    beyond = shares - middle
    sigma = max(MAD_TO_SIGMA * float(np.median(np.abs(beyond))), RESOLUTION * middle)
    late: Floats = np.where(beyond > OUTSIDE * sigma, beyond, 0.0)
    return late


def regular(late: Floats) -> bool:
    """Whether slow steps come at equal distances, give or take one line."""
    gaps = np.diff(np.flatnonzero(late))
    return len(gaps) >= FEWEST_GAPS and int(gaps.max() - gaps.min()) <= 1 < int(gaps.min())


@dataclass(frozen=True)
class Drift:
    """Second half against first half, in percent of the whole's mean, and its standard error."""

    percent: float
    noise_percent: float

    @property
    def beyond_noise(self) -> bool:
        """Larger than DRIFT_PERCENT and than DRIFT_SIGMAS standard errors."""
        return abs(self.percent) > max(DRIFT_PERCENT, DRIFT_SIGMAS * self.noise_percent)


def drift(times: Sequence[float]) -> Drift | None:
    """Measure the drift of one run's counted steps, in order; None of fewer than FEWEST_STEPS."""
    count = len(times)
    if count < FEWEST_STEPS:
        return None
    series = np.asarray(times, np.float64)
    series = series / float(series.max())
    series = series / float(series.mean()) - 1
    halves = series[: count // 2], series[-(count // 2) :]
    first_mean, second = (float(half.mean()) for half in halves)
    positions = np.linspace(-1, 1, count)
    line = series - positions * float(series @ positions) / float(positions @ positions)
    step = np.concatenate([halves[0] - first_mean, halves[1] - second])
    error = 2 * min(standard_error(line), standard_error(step))
    return Drift((second - first_mean) * 100, error * 100)


def quantile(freedom: float) -> float:
    """Return the 97.5 % quantile for at least 1 degree of freedom, which need not be whole."""
    return _between(freedom, _Z, _T)


def quantile_80(freedom: float) -> float:
    """Return the 80 % quantile, likewise."""
    return _between(freedom, _Z80, _T80)


def quantile_of(freedom: float, comparisons: float) -> float:
    """Return the quantile for that many intervals that are to hold together in 95 of 100 cases.

    The error is divided by their number (Bonferroni). Degrees of freedom are rounded down.
    """
    if comparisons <= 1:
        return quantile(freedom)
    error, degrees = 0.05 / comparisons, max(int(min(freedom, 1e4)), 1)
    low, high = quantile(degrees), 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tail(middle, degrees) > error else (low, middle)
    return high


def _between(freedom: float, normal: float, table: tuple[float, ...]) -> float:
    """Interpolate in 1 / freedom; beyond the table expand (Abramowitz and Stegun, 26.7.5)."""
    freedom = max(freedom, 1.0)
    if freedom < len(table):
        below = int(freedom)
        share = (1 / freedom - 1 / below) / (1 / (below + 1) - 1 / below)
        return table[below - 1] + share * (table[below] - table[below - 1])
    first_term, second = (
        (normal**3 + normal) / 4,
        (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96,
    )
    return normal + first_term / freedom + second / freedom**2


def tail(t: float, freedom: int) -> float:
    """Return the probability beyond +-t of Student's t (Abramowitz and Stegun, 26.7.3 and 4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for number in range(2 + odd, freedom, 2):
        term *= cosine * cosine * (number - 1) / number
        total += term
    if not odd:
        return max(0.0, 1 - sine * total)
    inside = angle + (sine * total if freedom > 1 else 0.0)
    return max(0.0, 1 - inside * 2 / math.pi)
