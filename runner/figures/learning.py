"""Whether a run learns at all: its last loss. Pure."""

from collections.abc import Iterable

from runner.terms.last_loss import LastLoss
from runner.terms.record import Interval


def last_loss(intervals: Iterable[Interval]) -> tuple[float | None, str]:
    """Return the last logged loss of a run, or None and why.

    A run that ends in NaN has no final loss: an older finite one would hide the divergence.
    """
    last = _last(intervals)
    if last.diverged_at is not None:
        return None, f"the loss was not a number at iteration {last.diverged_at}"
    return last.value, "" if last.value is not None else "the log shows no loss"


def diverged_at(intervals: Iterable[Interval]) -> int | None:
    """Return the iteration of the last logged loss where that is not a finite number, else None."""
    return _last(intervals).diverged_at


def _last(intervals: Iterable[Interval]) -> LastLoss:
    last = LastLoss()
    for line in intervals:
        last.add(line.iteration, line.loss, line.nan, line.skipped)
    return last
