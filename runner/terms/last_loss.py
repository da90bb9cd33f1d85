"""The last loss of a run, and whether the run has diverged: the one rule for all readers. Pure."""

import math
from dataclasses import dataclass


def logged_loss(loss: float | None, nan: int, skipped: int) -> float | None:
    """Return the loss of a line, NaN where it was not finite; None without one.

    An iteration that the optimiser skipped, for its gradients overflowed, says nothing.
    """
    loss = math.nan if loss is None and nan > 0 else loss
    return None if loss is None or (skipped > 0 and not math.isfinite(loss)) else loss


@dataclass
class LastLoss:
    """What the lines so far say of it."""

    value: float | None = None  # the last that is finite
    diverged_at: int | None = None  # iteration of the last line with a loss, if that is not finite

    def add(self, iteration: int, loss: float | None, nan: int, skipped: int) -> None:
        """Add a line."""
        logged = logged_loss(loss, nan, skipped)
        if logged is None:
            return
        self.diverged_at = None if math.isfinite(logged) and nan <= 0 else iteration
        self.value = logged if math.isfinite(logged) else self.value
