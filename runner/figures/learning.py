"""Whether a run learns at all: its last loss. Pure."""

import math
from collections.abc import Sequence

from runner.terms.record import Interval


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
