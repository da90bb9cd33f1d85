"""Drift: are the steps of the second half of a run slower than those of the first? Pure.

The mean of the second half of the counted steps minus that of the first, in percent, is beyond
noise when it is larger than DRIFT_PERCENT and than DRIFT_SIGMAS standard errors. The standard error
is that of the mean of what is left when a line, or the two halves' means, are taken out of the
steps (run_mean.py: neighbours that are alike count less), the smaller of the two, doubled: a
difference of two halves has four times the variance of the mean of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from runner.figures.run_mean import standard_error
from runner.figures.warmup import FEWEST

DRIFT_PERCENT = 2.0
DRIFT_SIGMAS = 3.0


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
    """Measure the drift of one run's counted steps, in order; None of fewer than FEWEST."""
    count = len(times)
    if count < FEWEST:
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
