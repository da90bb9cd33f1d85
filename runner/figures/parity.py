"""Do two runs learn the same? Their loss curves compared, within the curves' own noise. Pure.

A wrong run can be fast: gradients that are not summed, a dropped micro batch, a scale that is off.
So a cell's losses are compared with its baseline's, over the iterations that both know alike
(loss_curves.py), at least FEWEST times:

1. A cell's curve is the mean of its repeats. The difference of the two curves is smoothed by a
   centred running mean over `width` points: a tenth of them, at least SMALLEST_WIDTH.
2. The tolerance at each iteration is the largest of
   - NOISE_SIGMAS standard errors of that running mean, sigma / sqrt(width): sigma is robust (1.4826
     * MAD), of what smoothing removed. Runs over the same data in the same order
     share most of their noise and are held to the little that is left; other orders get more room.
   - what repeats differ by: the range of the smoothed curves, of either cell; where the two begin
     with other weights, Student's t at 99 % of their standard deviation, pooled over both cells;
   - the same of other cells of the same task (`repeated`), pooled over all: a learning rate that is
     too high amplifies the order of sums in each of them;
   - RELATIVE of the baseline's loss: fp16, bf16 and another order of summation stay below it.
3. The curves diverge at the first iteration from which the smoothed difference stays beyond the
   tolerance, on one side, for `width` points, or to the end for at least SMALLEST_WIDTH. They
   differ "by" the largest smoothed difference from there on.

A loss that is not a number in one cell alone diverges where it first is. What is not the same task
(data, batch, model) is not compared, with the reason. Nor are a running mean of the loss, whose
noise nobody knows, and single runs that begin with other weights (of other seeds or systems): of
equal settings a third was called different. Repeats of a seed each say how far seeds differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runner.figures.curves import Curve, loss_kind, read_alike, spans_of
from runner.figures.run_mean import quantile_of
from runner.figures.warmup import MAD_TO_SIGMA
from runner.terms.cell import SEED
from runner.terms.record import DATA_PARALLEL, Record

FEWEST = 8
SMALLEST_WIDTH = 3
NOISE_SIGMAS = 4.0
RELATIVE = 0.01
_SCHEDULE = ("lr", "lr_warmup_iters", "train_iters")
FEWEST_SEEDS = 4  # runs of both cells together: two tell their standard deviation badly
_MORE = f"add repeats with `seeds` (at least {FEWEST_SEEDS} runs of the two cells)"
FEWEST_FREEDOM = 2  # degrees of it: of a single pair Student's t is 64
SEEDS_ERROR = 0.01  # that seeds alone make two cells differ

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parity:
    """Whether two cells learn the same. `at` is the iteration from which they do not, `by` how much
    more loss the cell has than its baseline there or later, `tolerance` the noise at `at`. `of`
    says to people what losses were compared, of what runs.

    `why_not` says why the curves were not compared; the rest is empty then.
    """

    same: bool | None
    points: int = 0
    at: int | None = None
    by: float | None = None
    tolerance: float | None = None
    of: str = ""
    why_not: str = ""

    @property
    def words(self) -> str:
        """For a note: one clause."""
        if self.same is None:
            return f"loss not compared: {self.why_not}"
        if self.same:
            return f"loss as the baseline's, within noise, over {self.points} {self.of or 'losses'}"
        if self.by is None or self.tolerance is None:
            return f"loss diverges from baseline at iteration {self.at}: it is not a number"
        of = f"; {self.of}" if self.of else ""
        return (
            f"loss diverges from baseline at iteration {self.at} by {self.by:+.4g}"
            f" (noise {self.tolerance:.2g}{of})"
        )


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
    for name, own_value, base_value in facts:
        # A schedule that ends elsewhere has other rates on the way: train_iters counts.
        if own_value is not None and base_value is not None and own_value != base_value:
            between = "" if name == "the model's shape" else f" ({own_value} and {base_value})"
            return f"{name} differs{between}"
    return ""


def parity(
    ours: Sequence[Record],
    theirs: Sequence[Record],
    repeated: Sequence[Sequence[Record]] = (),
) -> Parity:
    """Compare a cell's runs with its baseline's (those that count).

    `repeated`: the runs of other cells of the same task, cell by cell. Only how far the runs of one
    cell are from each other is used.
    """
    if not ours or not theirs:
        return Parity(None, why_not="one of the two has no finished run")
    if why := task_differs(ours[0], theirs[0]) or _not_alike(ours, theirs):
        return Parity(None, why_not=why)
    start = start_differs(ours, theirs)
    if start and not _tell_seeds(ours, theirs):
        return Parity(None, why_not=f"{start}; {_MORE}")
    spans = [spans_of(run) for run in (*ours, *theirs)]
    curves = read_alike(spans)
    if len(curves[0]) < FEWEST and len({loss_kind(run) for run in (*ours, *theirs)}) > 1:
        return Parity(
            None,
            why_not="one log has the loss of single iterations, the other the mean of each line:"
            " log every iteration",
        )
    repeats = [read_alike([spans_of(run) for run in runs]) for runs in repeated if len(runs) > 1]
    comparison = compare(curves[: len(ours)], curves[len(ours) :], repeats, seeds=bool(start))
    return (
        replace(comparison, of=_sentence(ours, theirs, start))
        if comparison.same is not None
        else comparison
    )


def _not_alike(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """Say why what the logs call a loss is not one quantity, or ""."""
    kinds = {loss_kind(run): run.system for run in (*ours, *theirs)}
    if "running" in kinds:
        return f"{kinds['running']} logs a running mean of the loss"
    if "" in kinds and len(kinds) > 1:
        return f"it is not known over which iterations {kinds['']} averages its logged loss"
    return ""


def start_differs(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """Say why the two need not start from the same weights, or "". What only one of them says is
    no reason.
    """
    own_run, base_run = ours[0], theirs[0]
    if own_run.system != base_run.system:
        return f"{own_run.system} and {base_run.system} start from different weights"
    seeds = [{run.parameters.get(SEED) for run in runs} for runs in (ours, theirs)]
    if seeds[0] != seeds[1] and not any(None in side for side in seeds):
        own_seeds, second = (", ".join(sorted(map(str, side))) for side in seeds)
        return f"seeds differ ({own_seeds} and {second})"
    if not own_run.layout_free:
        for name in sorted({*own_run.parallel, *base_run.parallel} - {DATA_PARALLEL}):
            if (size := own_run.parallel_size(name)) != (theirs_ := base_run.parallel_size(name)):
                return f"the initial weights depend on {name} ({size} and {theirs_})"
    return ""


def _tell_seeds(*cells: Sequence[Record]) -> bool:
    """Return whether the runs say how far seeds differ: enough of them, each of a cell its own."""
    same_seeds = all(
        len(runs) == len({run.parameters.get(SEED) for run in runs} - {None}) or len(runs) == 1
        for runs in cells
    )
    return same_seeds and sum(map(len, cells)) >= FEWEST_SEEDS


def _sentence(ours: Sequence[Record], theirs: Sequence[Record], start: str) -> str:
    kinds = {loss_kind(run) for run in (*ours, *theirs)}
    subject = "line means" if kinds == {"window"} else "losses"
    if start:
        return f"{subject} ({start}; {len(ours)} and {len(theirs)} runs)"
    seeds_known = all(run.parameters.get(SEED) is not None for run in (*ours, *theirs))
    return f"{subject} ({'same initial weights' if seeds_known else 'seeds not recorded'})"


def compare(
    ours: Sequence[Curve],
    theirs: Sequence[Curve],
    repeated: Sequence[Sequence[Curve]] = (),
    *,
    seeds: bool = False,
) -> Parity:
    """Compare the curves of a cell's repeats with those of its baseline's.

    `repeated`: the curves of other cells' repeats; those that lack an iteration are left out.
    `seeds`: each repeat began with weights of its own.
    """
    shared = set.intersection(*(set(curve) for curve in (*ours, *theirs)))
    if len(shared) < FEWEST:
        return Parity(None, why_not=f"{len(shared)} iterations are logged by both, {FEWEST} needed")
    iterations = np.array(sorted(shared))
    covered = [curves for curves in repeated if all(shared <= set(curve) for curve in curves)]
    own_losses, base_losses, *repeat_losses = (
        np.array([[curve[i] for i in iterations.tolist()] for curve in curves], np.float64)
        for curves in (ours, theirs, *covered)
    )
    bad_one, bad_other = (~np.isfinite(side).all(axis=0) for side in (own_losses, base_losses))
    if bad_other.any():
        return Parity(None, why_not="the baseline's loss is not a number")
    good = int(np.argmax(bad_one)) if bad_one.any() else len(iterations)
    if good >= FEWEST:
        diverging = _diverges(
            iterations[:good],
            own_losses[:, :good],
            base_losses[:, :good],
            [losses[:, :good] for losses in repeat_losses if np.isfinite(losses[:, :good]).all()],
            seeds=seeds,
        )
        if diverging is not None:
            return diverging
    if good < len(iterations):
        return Parity(False, len(iterations), at=int(iterations[good]))
    return Parity(True, len(iterations))


def _diverges(
    iterations: NDArray[np.int64],
    own_losses: Floats,
    base_losses: Floats,
    repeat_losses: Sequence[Floats],
    *,
    seeds: bool,
) -> Parity | None:
    count = len(iterations)
    width = max(SMALLEST_WIDTH, count // 10)
    difference = own_losses.mean(axis=0) - base_losses.mean(axis=0)
    smooth = _smoothed(difference, width)
    # What a running mean leaves of white noise of variance 1 is 1 - 1/width of it.
    residuals = (difference - smooth) / math.sqrt(1 - 1 / width)
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(residuals)))
    tolerance = np.maximum(
        NOISE_SIGMAS * sigma / math.sqrt(width), RELATIVE * np.abs(base_losses.mean(0))
    )
    smoothed, base, *repeats = [
        np.stack([_smoothed(curve, width) for curve in side])
        for side in (own_losses, base_losses, *repeat_losses)
    ]
    if seeds:
        tolerance = np.maximum(tolerance, _of_repeats((smoothed, base), (smoothed, base)))
    else:
        tolerance = np.max([tolerance, np.ptp(smoothed, axis=0), np.ptp(base, axis=0)], axis=0)
        cells = (smoothed, base, *repeats)
        if repeats and sum(map(len, cells)) - len(cells) >= FEWEST_FREEDOM:
            tolerance = np.maximum(tolerance, _of_repeats(cells, (smoothed, base)))
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


def _of_repeats(cells: Sequence[Floats], compared: Sequence[Floats]) -> Floats:
    """Return how far the means of the compared cells may be from each other by chance, where runs
    of one cell differ as those of `cells` do.
    """
    freedom = sum(map(len, cells)) - len(cells)
    squares = sum(((curves - curves.mean(axis=0)) ** 2).sum(axis=0) for curves in cells)
    share = sum(1 / len(curves) for curves in compared)
    result: Floats = quantile_of(freedom, 0.05 / SEEDS_ERROR) * np.sqrt(squares / freedom * share)
    return result


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
    for index in range(1, len(side) + 1):
        if index < len(side) and side[index] == side[begin]:
            continue
        long = index - begin
        if side[begin] and (long >= width or (index == len(side) and long >= SMALLEST_WIDTH)):
            return begin
        begin = index
    return None
