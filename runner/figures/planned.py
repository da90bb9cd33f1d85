"""How far a run was to go, and whether its log shows that it went there. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from runner.logs.numbers import whole_number
from runner.logs.run_sizes import EXIT_INTERVAL
from runner.terms.record import Interval, Record

WIDEST = 100  # iterations that a line covers that stands alone: all before it, as far as it says


def planned(train_iters: int | None, facts: Mapping[str, str], last_iteration: int) -> int | None:
    """Return the iteration at which a run was to end, of which `last_iteration` is known, or None.

    It is the first of its train_iters and of the next multiple of its exit_interval, as its log
    says (`facts`): Megatron ends there, and says so.
    """
    every = whole_number(facts.get(EXIT_INTERVAL))
    ends = [train_iters] if train_iters is not None else []
    if every:
        ends.append(-(-max(last_iteration, 1) // every) * every)
    return min(ends, default=None)


def progress(record: Record) -> tuple[int | None, int | None]:
    """Return the iteration that a run's log ends at, and the one that it was to end at."""
    measured = record.measurement
    last_iteration = measured.intervals[-1].iteration if measured.intervals else None
    return last_iteration, planned(
        measured.iterations_of(record.parameters), measured.facts, last_iteration or 0
    )


def spacing(steps: Sequence[Interval]) -> int:
    """Return the most iterations between two lines of a log; of one line what it covers."""
    gaps = (after.iteration - before.iteration for before, after in pairwise(steps))
    alone = min(steps[-1].iterations, WIDEST) if steps else 0
    return max((gap for gap in gaps if gap > 0), default=alone)


def is_short(last_iteration: int, every: int, of: int | None) -> bool:
    """Return whether a log that ends there lacks a line, where one is written `every` iterations:
    one that logs each tenth of 55 ends at 50.
    """
    return of is not None and last_iteration + max(every, 1) <= of
