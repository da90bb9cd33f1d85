"""The logged steps that count, their speed and their time; how far a run was to go. Pure.

An interval counts when every iteration that it covers comes after the warm-up, which begins with
the run's first logged line; where no `warmup_iters` was given, warmup.py finds where each run's
ends. Of those, an interval in which the optimiser skipped an iteration (loss-scale overflow) is
left out of the time statistics, because a skipped iteration does less work; it is counted and
shown. NaN alone leaves nothing out: the work was done. One whose time is of earlier iterations, too
(a moving average, a mean since an earlier line), counts and has no time.

Samples per second of an interval is the logged value, else `global_batch_size * 1000 /
step_time_ms`; a step time that the log lacks is derived the other way round.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from runner.figures.warmup import steady_from
from runner.logs.numbers import whole_number
from runner.logs.run_sizes import EXIT_INTERVAL
from runner.terms.record import Interval, Record

_TINY = 1e-300  # beyond which a number or its inverse is not finite
WIDEST = 100  # iterations that a line covers that stands alone: all before it, as far as it says


def measured(value: float | None) -> float | None:
    """Return `value` when it is a finite number above zero, else None: a time of 0 measures
    nothing.
    """
    is_figure = value is not None and math.isfinite(value) and _TINY < value < 1 / _TINY
    return value if is_figure else None


def late_intervals(intervals: Iterable[Interval], warmup_iters: int) -> list[Interval]:
    """Return the intervals whose iterations all come after the run's first `warmup_iters`; without
    a time where that is of earlier ones, too.

    Where a line goes back behind the one before it, a run begins again, and warms up again.
    """
    late: list[Interval] = []
    first = last = None
    begin = 0  # iterations before the run, which its second line tells
    for line in intervals:
        if first is None or last is None or line.iteration < last.iteration:
            first = line
        elif last is first:
            begin = began_after(first, line)
        if warmup_iters <= (0 if first is line else line.iteration - line.iterations - begin):
            late.append(line)
        last = line
    begins = min((line.iteration - line.iterations for line in late), default=0)
    return [
        replace(line, step_time_ms=None, samples_per_s=None)
        if line.iteration - max(line.timed, line.remembers) < begins
        else line
        for line in late
    ]


def began_after(first: Interval, second: Interval) -> int:
    """Return the iterations before a run's first line: 5,000 of one that went on from there.

    A log that begins within a run does not say what its first line covers: as much as the next one.
    """
    return first.iteration - min(first.iterations, second.iterations)


def warmup_of(record: Record) -> int:
    """Return how many first iterations of a run are warm-up: as asked for, else by its step
    times, and at least its first line where another one remains; with a profiler all up to its end.
    """
    lines = record.measurement.intervals
    if record.profile is not None and lines:
        return max(record.warmup_iters or 0, min(record.profile.until, lines[-1].iteration))
    if record.warmup_iters is not None or len(lines) < 2:
        return record.warmup_iters or 0
    steps = []
    for interval in lines:
        time = step_time_ms(interval, record.global_batch_size)
        rate = interval.samples_per_s or interval.tokens_per_s or interval.device_tokens_per_s
        if time is None and (rate := measured(rate)) is not None:
            time = 1 / rate  # any unit will do
        if time is not None and math.isfinite(time) and interval.skipped <= 0:
            steps.append((interval.iteration, time))
    out = steady_from([time for _, time in steps])
    last_warm = max((iteration for iteration, _ in steps[:out]), default=0)
    if any(iteration > lines[0].iteration for iteration, _ in steps):
        last_warm = max(last_warm, lines[0].iteration)
    return max(0, last_warm - began_after(*lines[:2]))


def counted_intervals(record: Record) -> list[Interval]:
    """Return the intervals that enter the time statistics: after warm-up, without a skipped
    iteration or a pause.
    """
    late = late_intervals(record.measurement.intervals, warmup_of(record))
    return [interval for interval in late if counts(interval)]


def counts(interval: Interval) -> bool:
    """Return whether a line after warm-up counts: no step was skipped, no pause is in its time."""
    return interval.skipped <= 0 and not interval.paused


def samples_per_s(interval: Interval, global_batch_size: int | None) -> float | None:
    """Return sequences per second of the whole job in one interval: logged, else derived."""
    return _logged_or_derived(interval.samples_per_s, interval.step_time_ms, global_batch_size)


def step_time_ms(interval: Interval, global_batch_size: int | None) -> float | None:
    """Return milliseconds per iteration in one interval: logged, else derived."""
    return _logged_or_derived(interval.step_time_ms, interval.samples_per_s, global_batch_size)


def _logged_or_derived(
    logged: float | None, inverse: float | None, global_batch_size: int | None
) -> float | None:
    """Return the logged figure; else of a step's time (ms) the sequences per second, or of these
    the time: the same formula.
    """
    if (value := measured(logged)) is not None:
        return value
    by, batch = measured(inverse), measured(global_batch_size)
    return None if batch is None or by is None else measured(batch * 1000 / by)


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
