"""How often to save, and what goodput to expect, computed from what was measured. Pure.

Failures come one in M seconds on average, exponentially (a Poisson process). With d the seconds
that training stands still for a checkpoint, the best time between two is

    Young (1974)   sqrt(2 d M)
    Daly (2006)    sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d,  where d < 2M; else M

(J. W. Young, CACM 17(9); J. T. Daly, Future Generation Computer Systems 22(3), equation 37.)

`predicted` is exact for such failures and a fixed interval: each stretch of work t and its
checkpoint has to go through without a failure. A first try takes t + d; after a failure nothing
runs for `gap_s` (noticing, ending, launching), then the trainer starts for `start_s`, in which it
may fail, too, and does the stretch again. The moments of each follow from those of an exponential
time cut off at the stretch; stretches are independent, so that their variances add up, and
`predicted_half` says how far runs may be from the prediction by chance alone.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

NORMAL_95 = 1.96  # standard deviations to either side that have 95 % of a normal distribution


def young(stall_s: float, mtbf_s: float) -> float:
    """Return Young's best seconds of work between checkpoints."""
    return math.sqrt(2 * stall_s * mtbf_s)


def daly(stall_s: float, mtbf_s: float) -> float:
    """Return Daly's, which also holds where checkpoints take a large part of the time."""
    if stall_s >= 2 * mtbf_s:
        return mtbf_s
    share = stall_s / (2 * mtbf_s)
    return young(stall_s, mtbf_s) * (1 + math.sqrt(share) / 3 + share / 9) - stall_s


@dataclass(frozen=True)
class GoodputCosts:
    """What was measured of a cell, in seconds.

    `step_s` is a step's, `stall_s` that of one checkpoint, `late_s` what it takes longer until it
    is on the disk; `gap_s`, `start_s`: see the module. `interval` is in iterations, 0: no
    checkpoint, so that all is done again.
    """

    step_s: float
    stall_s: float
    late_s: float
    gap_s: float
    start_s: float
    interval: int


def predicted(costs: GoodputCosts, iterations: int, mtbf_s: float) -> float:
    """Return the goodput to expect of a run of so many iterations, as a share from 0 to 1."""
    total = _whole_run(costs, iterations, mtbf_s)
    return costs.step_s * iterations / total.mean if total.mean > 0 else 0.0


def predicted_half(costs: GoodputCosts, iterations: int, mtbf_s: float, runs: int) -> float | None:
    """Return half of the 95 % interval of the goodput of so many runs about the predicted one.

    It is what the chance of when failures come makes of it (the time of all runs is nearly normal);
    None where a run never comes through.
    """
    total = _whole_run(costs, iterations, mtbf_s)
    if not math.isfinite(total.mean) or not math.isfinite(total.variance) or total.mean <= 0:
        return None
    spread = math.sqrt(total.variance / runs) / total.mean
    return NORMAL_95 * spread * costs.step_s * iterations / total.mean


class _Time(NamedTuple):
    """Seconds that something takes: their mean and variance."""

    mean: float
    variance: float


def _whole_run(costs: GoodputCosts, iterations: int, mtbf_s: float) -> _Time:
    """Return the time of a run, from its first launcher's start to its last step."""
    stages = [_until_through(costs.start_s, costs.start_s, costs.gap_s, mtbf_s)]
    for stretch in _stretches(costs, iterations):
        # What was done while the checkpoint before was not yet on the disk is lost with it: as if
        # starting took so much longer.
        again = costs.start_s + costs.late_s + stretch
        stages.append(_until_through(stretch, again, costs.gap_s, mtbf_s))
    return _Time(sum(time.mean for time in stages), sum(time.variance for time in stages))


def _stretches(costs: GoodputCosts, iterations: int) -> list[float]:
    """Return the seconds of each stretch of work with its checkpoint; the last has none."""
    if not costs.interval or costs.interval >= iterations:
        return [costs.step_s * iterations]
    saves = (iterations - 1) // costs.interval
    stretch_s = costs.step_s * costs.interval + costs.stall_s
    return [*[stretch_s] * saves, costs.step_s * (iterations - saves * costs.interval)]


def _until_through(first_s: float, again_s: float, gap_s: float, mtbf_s: float) -> _Time:
    """Return the time until a try went through: the first takes `first_s`, each further one
    `again_s`, and between two nothing runs for `gap_s`.
    """
    first_p, first_fail = _failing(first_s, gap_s, mtbf_s)
    again_p, again_fail = _failing(again_s, gap_s, mtbf_s)
    if again_p >= 1.0:
        return _Time(math.inf, math.inf)
    # Moments of all further tries: R is again_s, or what a failed try took and R once more.
    through = 1 - again_p
    mean_r = (again_s * through + again_fail[0]) / through
    square_r = again_s**2 + (again_fail[1] + 2 * again_fail[0] * mean_r) / through
    mean = first_s * (1 - first_p) + first_fail[0] + first_p * mean_r
    square = first_s**2 * (1 - first_p) + first_fail[1] + 2 * first_fail[0] * mean_r
    square += first_p * square_r
    return _Time(mean, max(0.0, square - mean**2))


def _failing(length_s: float, gap_s: float, mtbf_s: float) -> tuple[float, tuple[float, float]]:
    """Return the probability that a try of this length fails, and the first and second moment of
    the time that it and the gap after it then take, both times that probability.
    """
    through = math.exp(-length_s / mtbf_s)
    fails = -math.expm1(-length_s / mtbf_s)
    mean = mtbf_s * fails - length_s * through
    square = 2 * mtbf_s * mean - length_s**2 * through
    return fails, (mean + gap_s * fails, square + 2 * gap_s * mean + gap_s**2 * fails)
