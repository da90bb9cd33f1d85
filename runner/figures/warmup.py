"""Where a run's warm-up ends when nobody says: MSER over its step times. Pure.

The marginal standard error rule (White 1997, "An effective truncation heuristic for bias reduction
in simulation output", Simulation 69(6); White and Franklin 2010, "A parametric expression for
MSER", WSC) leaves out the first d values for which the standard error of the mean of the rest is
smallest: it minimises sum((x_i - mean)^2) / (n - d)^2 over d. Three things are added, for step
times are not a simulation's output:

1. Before, values are pulled in to the steady band: the median of the second half, plus and minus
   STEADY_BAND robust standard deviations (1.4826 * MAD) of it. A checkpoint that made one late step
   slow moves nothing then.
2. Of all d within SLACK of the minimum the smallest is taken. The curve is flat near its minimum,
   and a few steps more are worth more than a minimum found in noise.
3. Leading values outside the steady band are left out in any case (the first step compiles).

The first line of a run is left out by counted_steps.warmup_of, where another one remains.
No more than half of the values is ever left out. A run that is still getting faster there is no
steadier later: the drift test (runner/figures/run_mean.py) marks it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FEWEST = 8  # values below which nothing can be told: then the first is left out
STEADY_BAND = 5.0  # robust standard deviations
SLACK = 0.10
MAD_TO_SIGMA = 1.4826  # of a normal distribution
RESOLUTION = 0.001  # of the median: what a log's digits hide counts as no difference


def steady_from(values: Sequence[float]) -> int:
    """Return how many of the first values are warm-up.

    `values` are a run's step times (any unit), in order, finite and positive.
    """
    count = len(values)
    if count < FEWEST:
        return min(1, max(0, count - 1))
    series, band = _beside_steady(values)
    inside = np.clip(series, -band, band)
    most = count // 2
    # Sums over the values from d to the end, for every d at once.
    back = inside[::-1]
    counts = np.arange(1, count + 1)
    squares = np.cumsum(back * back) - np.cumsum(back) ** 2 / counts
    error = np.maximum(squares / counts**2, 0.0)[::-1][: most + 1]
    cut = int(np.argmax(error <= error.min() * (1 + SLACK)))
    steady = np.abs(series[:most]) <= band
    leading = int(np.argmax(steady)) if steady.any() else most
    return max(cut, leading)


def begins_steady(values: Sequence[float]) -> bool:
    """Return whether a run's first value is a steady one; of fewer than FEWEST nobody can tell."""
    if len(values) < FEWEST:
        return False
    series, band = _beside_steady(values)
    return bool(abs(series[0]) <= band)


def _beside_steady(values: Sequence[float]) -> tuple[NDArray[np.float64], float]:
    """Return how far values are from the steady ones, the second half, and their band."""
    half = len(values) // 2
    series = np.asarray(values, np.float64) / float(np.median(values[half:])) - 1
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(series[half:])))
    return series, STEADY_BAND * max(sigma, RESOLUTION)
