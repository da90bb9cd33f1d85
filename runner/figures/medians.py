"""The interval of a median: of one run by order statistics, of several by Student's t. Pure.

Of one run of n lines the ends are the lines of rank n / 2 -+ 1.96 * sqrt(n) / 2 (David and Nagaraja
2003, Order Statistics, 7.1), with fewer independent lines in place of n where neighbours are alike:
it is the correlation of being above the median that counts. Two-valued steps have an interval like
all others. Of several runs the interval is that of their medians' mean.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev

import numpy as np

from runner.figures.run_mean import half_width
from runner.figures.student import quantile


def median_interval(runs: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Compute the 95 % interval of the mean of the runs' medians; None with too few values."""
    if len(runs) == 1:
        return _of_one(runs[0])
    medians = [median(run) for run in runs]
    scale = max(medians)  # so that no square overflows
    shares = [value / scale for value in medians]
    half = quantile(len(runs) - 1) * stdev(shares) / math.sqrt(len(runs))
    middle = fmean(shares)
    return max(middle - half, 0.0) * scale, (middle + half) * scale


def _of_one(run: Sequence[float]) -> tuple[float, float] | None:
    series = np.asarray(run, np.float64)
    above, below = series > (middle := median(run)), series < middle
    halves = [half_width(side - side.mean())[0] for side in map(np.float64, (above, ~below))]
    if None in halves or above.all() or below.all():  # it has drifted away from its median
        return None
    count = len(series)
    outside = math.floor((count - 1) / 2 - max(filter(None, halves), default=0.0) * count)
    if outside < 0:
        return None
    ordered = np.sort(series)
    return float(ordered[outside]), float(ordered[count - 1 - outside])
