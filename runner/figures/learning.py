"""Whether a run learns at all: its last loss. Pure."""

from collections.abc import Iterable

from runner.terms.last_loss import LastLoss
from runner.terms.record import Interval


def last_loss(intervals: Iterable[Interval]) -> tuple[float | None, str]:
    """Return the last logged loss of a run, or None and why.

    A run that ends in NaN has no final loss: an older finite one would hide the divergence.
    """
    loss = _last_loss(intervals)
    if loss.diverged_at is not None:
        return None, f"the loss was not a number at iteration {loss.diverged_at}"
    return loss.value, "" if loss.value is not None else "the log shows no loss"


def diverged_at(intervals: Iterable[Interval]) -> int | None:
    """Return the iteration of the last logged loss where that is not a finite number, else None."""
    return _last_loss(intervals).diverged_at


def _last_loss(intervals: Iterable[Interval]) -> LastLoss:
    loss = LastLoss()
    for line in intervals:
        loss.add(line.iteration, line.loss, line.nan, line.skipped)
    return loss
