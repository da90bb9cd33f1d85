"""A run's loss and step time over its iterations: its last loss, points, curves read alike. Pure.

A log's loss is that of one iteration, or the mean over all iterations of its line (LossKind). Two
logs are read where both are known over the same iterations: a mean of ten is held against the mean
of ten losses that another log has of each iteration, never against one loss.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from runner.figures.counted_steps import step_time_ms
from runner.terms.record import Interval, LossKind, Record

Curve = Mapping[int, float]  # iteration to loss
Span = tuple[int, int]  # the iterations before it, and its last one
Spans = Mapping[Span, float]
Points = list[tuple[float, float]]  # (iteration, value)


def logged_loss(line: Interval) -> float | None:
    """Return the loss of a line, NaN where it was not finite; None without one.

    An iteration that the optimiser skipped, for its gradients overflowed, says nothing.
    """
    loss = math.nan if line.loss is None and line.nan > 0 else line.loss
    return None if loss is None or (line.skipped > 0 and not math.isfinite(loss)) else loss


def last_loss(intervals: Sequence[Interval]) -> tuple[float | None, str]:
    """Return the last logged loss of a run, or None and why.

    A run that ends in NaN has no final loss: an older finite one would hide the divergence.
    """
    if (at := diverged_at(intervals)) is not None:
        return None, f"the loss was not a number at iteration {at}"
    last = _last(intervals)
    return (last.loss, "") if last else (None, "the log shows no loss")


def diverged_at(intervals: Sequence[Interval]) -> int | None:
    """Return the iteration of the last logged loss where that is not a finite number, else None."""
    last = _last(intervals)
    finite = last is None or (last.nan <= 0 and math.isfinite(logged_loss(last) or 0.0))
    return None if last is None or finite else last.iteration


def _last(intervals: Sequence[Interval]) -> Interval | None:
    return next((line for line in reversed(intervals) if logged_loss(line) is not None), None)


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


def curve_of(record: Record) -> dict[int, float]:
    """Return iteration to loss; NaN where the log says that it was one."""
    logged = (
        (interval.iteration, logged_loss(interval)) for interval in record.measurement.intervals
    )
    return {iteration: loss for iteration, loss in logged if loss is not None}


def loss_kind(record: Record) -> LossKind:
    """Return what the losses of `curve_of` are the mean of; "" without any."""
    return record.measurement.loss_kind if curve_of(record) else ""


def spans_of(record: Record) -> dict[Span, float]:
    """Return the losses by the iterations that each is the mean of."""
    covers = {}
    if loss_kind(record) == "window":
        covers = {
            interval.iteration: interval.iterations for interval in record.measurement.intervals
        }
    return {
        (iteration - max(covers.get(iteration, 1), 1), iteration): loss
        for iteration, loss in curve_of(record).items()
    }


def read_alike(curves: Sequence[Spans]) -> list[Curve]:
    """Return each curve over the iterations that all of them know alike, by the last of each."""
    readers = [_Reader(curve) for curve in curves]
    spans: list[Span] = []
    different: list[Spans] = []  # repeats log alike
    for curve in curves:
        if all(curve.keys() != shorter.keys() for shorter in different):
            different.append(curve)
    for curve in different:
        readable = [
            span for span in curve if all(reader.mean(span) is not None for reader in readers)
        ]
        spans = max(spans, readable, key=len)
    return [{span[1]: reader.mean(span) or 0.0 for span in spans} for reader in readers]


class _Reader:
    """A curve that gives the mean over any iterations which its losses cover without a gap."""

    def __init__(self, curve: Spans) -> None:
        self._curve = curve
        # At each end of a span: which chain of spans without a gap it is of, the sum of the losses
        # of its iterations up to there, and how many are no number.
        self._ends: dict[int, tuple[int, float, int]] = {}
        chain, previous_end = 0, None
        for begin, end in sorted(curve, key=lambda span: span[1]):
            if begin != previous_end:
                chain += 1
                self._ends[begin] = (chain, 0.0, 0)
            _, total, lost = self._ends[begin]
            loss = curve[begin, end]
            is_finite = math.isfinite(loss)
            total += loss * (end - begin) if is_finite else 0.0
            self._ends[end] = (chain, total, lost + (not is_finite))
            previous_end = end

    def mean(self, span: Span) -> float | None:
        """Return the mean over these iterations; NaN where one is, None where it is not known."""
        if span in self._curve:
            return self._curve[span]
        begin, end = (self._ends.get(iteration) for iteration in span)
        if begin is None or end is None or begin[0] != end[0]:
            return None
        return math.nan if end[2] > begin[2] else (end[1] - begin[1]) / (span[1] - span[0])
