"""Is a path's curve the reference's, within the noise of its seeds? Pure.

Two curves of a run are judged: the loss, and the logarithm of the gradients' norm, which tells of
what AdamW hides from the loss (a gradient of the wrong size). A path runs with the first seed and
is held against the reference's run with it: same weights, same samples, so that what is left is
what arithmetic does. *Noise* is what another seed does: the same measure of the differences between
the reference's runs, pair by pair. A ratio of 1 is a path that is as far from the reference as
another seed; of each curve there are two:

    start   root mean square of the differences over the first twentieth of the iterations,
            while the weights are still the same: rounding alone, and errors of a gradient at once
    whole   the largest of three, of all the iterations: of each, of means over a twentieth, of
            means over a quarter. Small steady differences show in the last, passing ones in the
            first

Rounding is amplified by training, as any small difference is, so that LIMITS leave a path that
computes in fewer bits the noise of the seeds as a whole (one seed is up to 1.3 from another), and
hold it to its start. What computes in
fp32 has the reference's sums in another order, and is held to far less.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from runner.terms.record import Interval

Floats = NDArray[np.float64]
FEWEST = 20  # iterations: a twentieth of fewer is none
FEWEST_SEEDS = 3
# Of each arithmetic: the largest ratio at the start, and of the whole.
LIMITS: Mapping[str, tuple[float, float]] = {
    "fp32": (0.01, 0.5),
    "16 bits": (0.1, 1.5),
    "fp8": (0.5, 1.5),
}


@dataclass(frozen=True)
class Curves:
    """Loss, and logarithm of the gradients' norm, of each iteration."""

    loss: Floats
    norm: Floats


@dataclass(frozen=True)
class Ratios:
    """How far a path is from the reference, in the noise of the seeds."""

    loss_start: float
    loss_whole: float
    norm_start: float
    norm_whole: float

    def beyond(self, arithmetic: str) -> list[str]:
        """Name what is beyond its limit."""
        start, whole = LIMITS[arithmetic]
        limits = zip(self.named().items(), (start, whole, start, whole), strict=True)
        return [name for (name, ratio), limit in limits if not ratio <= limit]

    def named(self) -> dict[str, float]:
        """Name each ratio for people."""
        return {name.replace("_", " "): ratio for name, ratio in vars(self).items()}


def curves(intervals: Sequence[Interval]) -> Curves:
    """Take the curves of a log, one line an iteration; NaN where it says no number."""
    loss = [math.nan if each.loss is None else each.loss for each in intervals]
    norm = [math.nan if each.grad_norm is None else each.grad_norm for each in intervals]
    with np.errstate(divide="ignore", invalid="ignore"):
        return Curves(np.array(loss, np.float64), np.log(np.array(norm, np.float64)))


def ratios(path: Curves, references: Sequence[Curves]) -> Ratios:
    """Compare a path with the first of the references, which has its seed."""
    measured = []
    for curve in ("loss", "norm"):
        difference = getattr(path, curve) - getattr(references[0], curve)
        pairs = combinations((getattr(each, curve) for each in references), 2)
        others = [one - other for one, other in pairs]
        measured.append(_ratio(_start, difference, others))
        measured.append(float(np.max([_ratio(part, difference, others) for part in _WHOLE])))
    return Ratios(*measured)


def _start(values: Floats) -> Floats:
    return values[: len(values) // FEWEST]


def means(values: Floats, parts: int) -> Floats:
    """Return the means of so many parts, one after the other."""
    return np.array([part.mean() for part in np.array_split(values, parts)])


_WHOLE: Sequence[Callable[[Floats], Floats]] = (
    lambda values: values,
    lambda values: means(values, FEWEST),
    lambda values: means(values, 4),
)


def _ratio(of: Callable[[Floats], Floats], ours: Floats, others: Sequence[Floats]) -> float:
    noise = np.sqrt(np.mean([np.square(of(each)) for each in others]))
    return float(np.sqrt(np.mean(np.square(of(ours)))) / noise)
