"""A run's loss and step time over its iterations, as points. Pure."""

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from runner.figures.counted_steps import step_time_ms
from runner.terms.record import Interval, Record

Points = list[tuple[float, float]]  # (iteration, value)


def loss_curve(run: Record) -> Points:
    """Return (iteration, loss) of the log."""
    return _finite((i.iteration, i.loss) for i in run.measurement.intervals)


def validation_curve(run: Record) -> Points:
    """Return (iteration, loss) of the log's evaluations."""
    return _finite(run.measurement.validation)


def step_times(run: Record) -> Points:
    """Return (iteration, step time in ms)."""
    return times(run, run.measurement.intervals)


def times(run: Record, intervals: Iterable[Interval]) -> Points:
    """Return (iteration, step time in ms) of some of a run's intervals."""
    return _finite((i.iteration, step_time_ms(i, run.global_batch_size)) for i in intervals)


def thinned(points: Points, most: int) -> Points:
    """Thin a curve to at most `most` points: medians of neighbours."""
    parts = min(len(points), most)
    cuts = [len(points) * index // parts for index in range(parts + 1)] if parts else []
    neighbours = [points[low:high] for low, high in pairwise(cuts)]
    return [
        (median(x for x, _ in points_here), median(y for _, y in points_here))
        for points_here in neighbours
    ]


def _finite(pairs: Iterable[tuple[int, float | None]]) -> Points:
    return [(x, y) for x, y in pairs if y is not None and math.isfinite(y)]
