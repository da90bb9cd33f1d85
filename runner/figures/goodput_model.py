"""How often to save, and what goodput to expect, computed from what was measured. Pure.

Failures come one in M seconds on average, exponentially (a Poisson process). With d the seconds
that training stands still for a checkpoint, the best time between two is

    Young (1974)   sqrt(2 d M)
    Daly (2006)    sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + (d / 2M) / 9) - d,  where d < 2M; else M

(J. W. Young, CACM 17(9); J. T. Daly, Future Generation Computer Systems 22(3), equation 37.)

`predicted` is exact for such failures and a fixed interval: each stretch of work t and its
checkpoint has to go through without a failure. A first try takes t + d; after a failure nothing
runs for `gap_s` (noticing, ending, launching), then the trainer starts for `start_s`, in which it
may fail, too, and does the stretch again.
"""

import math
from dataclasses import dataclass


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


def predicted(
    costs: GoodputCosts, iterations: int, mtbf_s: float, most_faults: int | None = None
) -> float:
    """Return the goodput to expect of a run of so many iterations, as a share from 0 to 1.

    `most_faults`: no more come, as in a run with planned ones; then it is at least what these cost.
    """
    work = costs.step_s * iterations
    stretches = _stretches(costs, iterations)
    total = costs.start_s + sum(_expected(stretch, costs, mtbf_s) for stretch in stretches)
    total += _while_starting(costs, mtbf_s)
    return work / total if total > 0 else 0.0


def _stretches(costs: GoodputCosts, iterations: int) -> list[float]:
    """Return the seconds of each stretch of work with its checkpoint; the last has none."""
    if not costs.interval or costs.interval >= iterations:
        return [costs.step_s * iterations]
    saves = (iterations - 1) // costs.interval
    stretch_s = costs.step_s * costs.interval + costs.stall_s
    return [*[stretch_s] * saves, costs.step_s * (iterations - saves * costs.interval)]


def _expected(stretch: float, costs: GoodputCosts, mtbf_s: float) -> float:
    """Return the seconds to expect until a stretch has gone through.

    What was done while the checkpoint before was not yet on the disk is lost with it: as if
    starting took so much longer.
    """
    again = costs.start_s + costs.late_s + stretch
    fails = -math.expm1(-stretch / mtbf_s)
    fails_again = -math.expm1(-again / mtbf_s)
    if fails_again >= 1.0:
        return math.inf
    retries_s = (fails_again * mtbf_s + fails_again * costs.gap_s) / (1 - fails_again)
    return fails * mtbf_s + fails * (costs.gap_s + retries_s)


def _while_starting(costs: GoodputCosts, mtbf_s: float) -> float:
    """Return the seconds that failures before the first step add."""
    fails = -math.expm1(-costs.start_s / mtbf_s)
    if fails >= 1.0:
        return math.inf
    return (fails * mtbf_s + fails * costs.gap_s) / (1 - fails) - costs.start_s
