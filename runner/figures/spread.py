"""How sure a figure is: confidence interval, coefficient of variation, drift. Pure.

*Confidence interval*: of the median, 95 %, by a moving-block bootstrap (Künsch 1989, Annals of
Statistics 17(3)): neighbouring steps resemble each other, so that blocks of round(n^(1/3)) steps
are drawn, not single ones. With repeats it has two levels: runs are drawn first, then each run's
own bootstrap medians. RESAMPLES draws, seeded: the same input gives the same interval. Of a long
run the medians of MOST_BLOCKS equal pieces are drawn from, which bounds the time (1 ms a run).
Fewer than warmup.FEWEST values of one run give no interval; nor do runs with one value each unless
there are FEWEST_RUNS of them. Resamples of few runs are too much alike (Hesterberg 2015, The
American Statistician 69(4), section 5.1): an interval over n of them is made wider by Student's t
for n - 1 degrees of freedom over the normal quantile, and by sqrt(n / (n - 1)).

*Interval of a difference*: of ours minus theirs, in percent of theirs, from such resamples of both,
drawn apart, and made wider for the degrees of freedom of both. A difference is real where the
interval leaves 0 out (and half of it is less than the difference: tables/row.py).

*Drift*: half against half. The median of the second half of the counted steps minus that of the
first, in percent, is beyond noise when it is larger than DRIFT_PERCENT and than DRIFT_SIGMAS
standard errors. A median's standard error is 1.2533 * sigma / sqrt(m), sigma is robust (1.4826 *
MAD, of what is left when a line, or the two medians, are taken out), and m, the number of steps,
shrinks by (1 - r) / (1 + r) for their correlation r from step to step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from runner.figures.warmup import FEWEST, MAD_TO_SIGMA

CONFIDENCE_PERCENT = 95
RESAMPLES = 500
MOST_BLOCKS = 128
FEWEST_RUNS = 3
DRIFT_PERCENT = 2.0
DRIFT_SIGMAS = 3.0
# A spread beyond these is marked: of one run's steps (interquartile range), and between repeats.
WIDE_STEPS_PERCENT = 10.0
WIDE_REPEATS_PERCENT = 5.0

_MEDIAN_SIGMA = 1.2533  # a median's standard error over a mean's: sqrt(pi / 2)
_SEED = 20230724
_Z = 1.959964  # the normal distribution's 97.5 % quantile, and Student's of so many degrees:
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)  # of 1 degree on
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drift:
    """Second half against first half, in percent of the whole's median, and its noise."""

    percent: float
    noise_percent: float

    @property
    def beyond_noise(self) -> bool:
        """Larger than DRIFT_PERCENT and than DRIFT_SIGMAS standard errors."""
        return abs(self.percent) > max(DRIFT_PERCENT, DRIFT_SIGMAS * self.noise_percent)


def confidence(runs: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Compute the interval of the median of the runs' medians; None of too few values.

    Values are speeds or times: no interval goes below 0.
    """
    counted = _counted(runs)
    medians = _resampled(counted)
    if medians is None:
        return None
    low, high = _interval(medians, _widening(len(counted)))
    return max(low, 0.0), high


def difference(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> tuple[float, float] | None:
    """Compute the interval of ours minus theirs, in percent of theirs; None of too few values."""
    both = _counted(ours), _counted(theirs)
    mine, base = map(_resampled, both)
    if mine is None or base is None:
        return None
    # Runs of one length are drawn alike: in another order the two are independent.
    base = np.random.default_rng(_SEED).permutation(base)
    return _interval((mine / base - 1) * 100, _widening(*map(len, both)))


def _counted(runs: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(run) for run in runs if len(run))


@lru_cache(maxsize=256)  # a baseline's are asked for again by each cell beside it
def _resampled(runs: tuple[tuple[float, ...], ...]) -> Floats | None:
    """Return RESAMPLES medians of the runs' medians; None of too few values."""
    if not runs or (len(runs) < FEWEST_RUNS and any(len(run) < FEWEST for run in runs)):
        return None
    medians = np.stack([_medians(np.asarray(run, np.float64)) for run in runs])
    if len(runs) == 1:
        only: Floats = medians[0]
        return only
    generator = np.random.default_rng(_SEED)
    drawn = generator.integers(0, len(runs), (len(runs), RESAMPLES))
    result: Floats = np.median(medians[drawn, np.arange(RESAMPLES)], axis=0)
    return result


def _interval(values: Floats, widening: float) -> tuple[float, float]:
    tail = (100 - CONFIDENCE_PERCENT) / 2
    low, middle, high = np.percentile(values, [tail, 50, 100 - tail])
    more = widening - 1  # of one run it is 0, and the interval exactly the percentiles
    return float(low - more * (middle - low)), float(high + more * (high - middle))


def _widening(*runs: int) -> float:
    """Compute how much wider an interval is than its resamples, over so many runs a side.

    A side of one run tells nothing of how runs differ: its interval is that of its steps alone.
    """
    several = [count for count in runs if count > 1]
    if not several:
        return 1.0
    fewest = min(several)
    narrow = math.sqrt(fewest / (fewest - 1))
    return _student(sum(several) - len(several)) / _Z * narrow


def _student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, to 0.1 % (Abramowitz and Stegun, 26.7.5)."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    first, second = (_Z**3 + _Z) / 4, (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
    return _Z + first / freedom + second / freedom**2


def _medians(run: Floats) -> Floats:
    """Return RESAMPLES bootstrap medians of one run."""
    if len(run) > MOST_BLOCKS:
        size = -(-len(run) // MOST_BLOCKS)
        pieces = len(run) // size  # what is left at the end is less than one of them
        run = _row_medians(run[: pieces * size].reshape(pieces, size))
    return _row_medians(run[_draws(len(run))])


def _row_medians(table: Floats) -> Floats:
    """Compute np.median over each row; that asks each row for NaN, which takes as long again."""
    middle = table.shape[1] // 2
    if table.shape[1] % 2:
        return np.partition(table, middle, axis=1)[:, middle]
    halves = np.partition(table, (middle - 1, middle), axis=1)[:, middle - 1 : middle + 1]
    result: Floats = halves.mean(axis=1)
    return result


@lru_cache(maxsize=MOST_BLOCKS)
def _draws(count: int) -> NDArray[np.int64]:
    """Draw RESAMPLES rows of `count` positions, in blocks."""
    block = max(1, round(count ** (1 / 3)))
    generator = np.random.default_rng(_SEED + count)
    begins = generator.integers(0, count - block + 1, (RESAMPLES, -(-count // block), 1))
    rows: NDArray[np.int64] = (begins + np.arange(block)).reshape(RESAMPLES, -1)[:, :count]
    return rows


def drift(values: Sequence[float]) -> Drift | None:
    """Measure the drift of one run's counted values, in order; None of fewer than warmup.FEWEST."""
    count = len(values)
    if count < FEWEST:
        return None
    series = np.asarray(values, np.float64) / float(np.median(values))
    halves = series[: count // 2], series[-(count // 2) :]
    first, second = (float(np.median(half)) for half in halves)
    # What is left of the steps when a step in the middle, or a line, is taken out: the smaller
    # noise is that of the better description.
    place = np.linspace(-1, 1, count)
    calm = np.clip(series, *np.percentile(series, [5, 95]))
    line = series - np.median(calm) - place * float(calm @ place) / float(place @ place)
    step = np.concatenate([halves[0] - first, halves[1] - second])
    error = min(_error(line, count), _error(step, count))
    return Drift((second - first) * 100, error * 100)


def _error(rest: Floats, count: int) -> float:
    """Estimate the standard error of the difference of two medians of half the steps,
    `rest` their noise.
    """
    rest = rest - np.median(rest)
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(rest)))
    rest = np.clip(rest, -5 * sigma, 5 * sigma)
    power = float(rest @ rest)
    alike = min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), 0.9) if power else 0.0
    independent = count / 2 * (1 - alike) / (1 + alike)
    return float(_MEDIAN_SIGMA * sigma * (2 / independent) ** 0.5)


def variation(values: Sequence[float]) -> float | None:
    """Return coefficient of variation: sample standard deviation in percent of the mean."""
    if len(values) < 2:
        return None
    series = np.asarray(values, np.float64)
    scale = float(series.max())  # so that no square overflows
    shares = series / scale
    return float(np.std(shares, ddof=1) / np.mean(shares) * 100)
