"""Whether a run learns at all: its last loss. Pure."""

import math
from collections.abc import Sequence

from runner.terms.record import Interval


def last_loss(intervals: Sequence[Interval]) -> tuple[float | None, str]:
    """Return the last logged loss of a run, or None and why.

    A run that ends in NaN has no final loss: an older finite one would hide the divergence.
    """
    at = diverged_at(intervals)
    if at is not None:
        return None, f"the loss was not a number at iteration {at}"
    losses = (i.loss for i in reversed(intervals) if i.loss is not None and math.isfinite(i.loss))
    loss = next(losses, None)
    return loss, "" if loss is not None else "the log shows no loss"


def diverged_at(intervals: Sequence[Interval]) -> int | None:
    """Return the iteration of the last logged loss where that is not a finite number, else None.

    An iteration that the optimiser skipped, for its gradients overflowed, says nothing.
    """
    for interval in reversed(intervals):
        finite = interval.loss is not None and math.isfinite(interval.loss)
        if interval.skipped > 0 and not finite:
            continue
        if interval.nan > 0 or (interval.loss is not None and not finite):
            return interval.iteration
        if finite:
            return None
    return None
