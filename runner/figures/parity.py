"""Do two runs learn the same? Their loss curves compared, within the curves' own noise. Pure.

A wrong run can be fast: gradients that are not summed, a dropped micro batch, a scale that is off.
So a cell's losses are compared with its baseline's, on the iterations that both logged (at least
FEWEST; a curve that logs less often is what the other is read at):

1. A cell's curve is the mean of its repeats. The difference of the two curves is smoothed by a
   centred running mean over `width` points: a tenth of them, at least SMALLEST_WIDTH.
2. The tolerance at each iteration is the largest of
   - NOISE_SIGMAS standard errors of that running mean, sigma / sqrt(width): sigma is robust (1.4826
     * MAD), of what smoothing took off the difference. Runs over the same data in the same order
     share most of their noise and are held to the little that is left; other orders get more room.
   - the range of the smoothed curves of the repeats, of either cell;
   - RELATIVE of the baseline's loss: fp16, bf16 and another order of summation stay below it.
3. The curves diverge at the first iteration from which the smoothed difference stays beyond the
   tolerance, on one side, for `width` points, or to the end for at least SMALLEST_WIDTH. They
   differ "by" the largest smoothed difference from there on.

A loss that is not a number in one cell alone diverges where it first is. What is not the same task
(data, seed, batch, model) is not compared, with the reason.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.figures.learning import logged_loss
from runner.figures.warmup import MAD_TO_SIGMA
from runner.terms.record import Record

FEWEST = 8
SMALLEST_WIDTH = 3
NOISE_SIGMAS = 4.0
RELATIVE = 0.01
_SCHEDULE = ("seed", "lr", "lr_warmup_iters", "train_iters")

Curve = Mapping[int, float]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parity:
    """Whether two cells learn the same. `at` is the iteration from which they do not, `by` how much
    more loss the cell has than its baseline there or later, `tolerance` the noise at `at`.

    `why_not` says why the curves were not compared; the rest is empty then.
    """

    same: bool | None
    points: int = 0
    at: int | None = None
    by: float | None = None
    tolerance: float | None = None
    why_not: str = ""

    @property
    def words(self) -> str:
        """For a note: one clause."""
        if self.same is None:
            return f"loss not compared: {self.why_not}"
        if self.same:
            return f"loss as the baseline's, within noise, over {self.points} logged losses"
        if self.by is None or self.tolerance is None:
            return f"loss diverges from baseline at iteration {self.at}: it is not a number"
        return (
            f"loss diverges from baseline at iteration {self.at} by {self.by:+.4g}"
            f" (noise {self.tolerance:.2g})"
        )


def curve_of(record: Record) -> dict[int, float]:
    """Return iteration to loss: the log's, else TensorBoard's. NaN where the log says that
    it was one.
    """
    logged = ((each.iteration, logged_loss(each)) for each in record.measurement.intervals)
    losses = {iteration: loss for iteration, loss in logged if loss is not None}
    return losses or dict(record.measurement.curve)


def task_differs(ours: Record, theirs: Record, *, schedule: bool = True) -> str:
    """Say why the two runs need not learn the same, or "". What only one of them says is no
    reason.

    Without `schedule` only what is learned counts: the model and the data.
    """
    facts: list[tuple[str, Any, Any]] = [("the model's shape", ours.model, theirs.model)]
    if schedule:
        facts.append(("global_batch_size", ours.global_batch_size, theirs.global_batch_size))
    for name in ("dataset", "split", *(_SCHEDULE if schedule else ())):
        facts.append((name, ours.parameters.get(name), theirs.parameters.get(name)))
    for name, one, other in facts:
        # A schedule that ends elsewhere has other rates on the way: train_iters counts.
        if one is not None and other is not None and one != other:
            between = "" if name == "the model's shape" else f" ({one} and {other})"
            return f"{name} differs{between}"
    return ""


def parity(ours: Sequence[Record], theirs: Sequence[Record]) -> Parity:
    """Compare a cell's runs with its baseline's (those that count: see summary.runs_that_count)."""
    if not ours or not theirs:
        return Parity(None, why_not="one of the two has no finished run")
    if why := task_differs(ours[0], theirs[0]):
        return Parity(None, why_not=why)
    return compare([curve_of(run) for run in ours], [curve_of(run) for run in theirs])


def compare(ours: Sequence[Curve], theirs: Sequence[Curve]) -> Parity:
    """Compare the curves of a cell's repeats with those of its baseline's."""
    shared = set.intersection(*(set(curve) for curve in (*ours, *theirs)))
    if len(shared) < FEWEST:
        return Parity(None, why_not=f"{len(shared)} iterations are logged by both, {FEWEST} needed")
    iterations = np.array(sorted(shared))
    one, other = (
        np.array([[curve[i] for i in iterations.tolist()] for curve in curves], np.float64)
        for curves in (ours, theirs)
    )
    bad_one, bad_other = (~np.isfinite(each).all(axis=0) for each in (one, other))
    if bad_other.any():
        return Parity(None, why_not="the baseline's loss is not a number")
    good = int(np.argmax(bad_one)) if bad_one.any() else len(iterations)
    if good >= FEWEST:
        diverging = _diverges(iterations[:good], one[:, :good], other[:, :good])
        if diverging is not None:
            return diverging
    if good < len(iterations):
        return Parity(False, len(iterations), at=int(iterations[good]))
    return Parity(True, len(iterations))


def _diverges(iterations: NDArray[np.int64], one: Floats, other: Floats) -> Parity | None:
    count = len(iterations)
    width = max(SMALLEST_WIDTH, count // 10)
    difference = one.mean(axis=0) - other.mean(axis=0)
    smooth = _smoothed(difference, width)
    # What a running mean leaves of white noise of variance 1 is 1 - 1/width of it.
    rest = (difference - smooth) / math.sqrt(1 - 1 / width)
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(rest)))
    tolerance = np.maximum(
        NOISE_SIGMAS * sigma / math.sqrt(width), RELATIVE * np.abs(other.mean(0))
    )
    for each in (one, other):
        if len(each) > 1:
            curves = np.stack([_smoothed(curve, width) for curve in each])
            tolerance = np.maximum(tolerance, np.ptp(curves, axis=0))
    side = np.where(np.abs(smooth) > tolerance, np.sign(smooth), 0)
    at = _stays(side, width)
    if at is None:
        return None
    largest = at + int(np.argmax(np.abs(smooth[at:])))
    return Parity(
        False,
        count,
        at=int(iterations[at]),
        by=float(smooth[largest]),
        tolerance=float(tolerance[at]),
    )


def _smoothed(values: Floats, width: int) -> Floats:
    """Compute a centred running mean; of fewer values at the two ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    begin = np.maximum(places - (width - 1) // 2, 0)
    end = np.minimum(places + width // 2 + 1, len(values))
    result: Floats = (total[end] - total[begin]) / (end - begin)
    return result


def _stays(side: Floats, width: int) -> int | None:
    """Find where a run of one side begins that is `width` long, or reaches the end."""
    begin = 0
    for place in range(1, len(side) + 1):
        if place < len(side) and side[place] == side[begin]:
            continue
        long = place - begin
        if side[begin] and (long >= width or (place == len(side) and long >= SMALLEST_WIDTH)):
            return begin
        begin = place
    return None
