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
    """Return the iteration of the last logged loss where that is not a finite number, else None."""
    for interval in reversed(intervals):
        loss = logged_loss(interval)
        if loss is not None:
            return None if math.isfinite(loss) and interval.nan <= 0 else interval.iteration
    return None


def logged_loss(interval: Interval) -> float | None:
    """Return the loss of a line, NaN where it says that it was none; None: it says nothing.

    An iteration that the optimiser skipped, for its gradients overflowed, says nothing.
    """
    loss = math.nan if interval.loss is None and interval.nan > 0 else interval.loss
    return None if loss is None or (interval.skipped > 0 and not math.isfinite(loss)) else loss
