"""Steps that count, and what they say: medians, percentiles and spread of a cell's runs.

Pure: records in, numbers out. The definitions, in full:

*Counted intervals.* An interval counts when every iteration that it covers comes after the
warm-up (`iteration - iterations >= warmup_iters`). Of those, an interval in which the optimiser
skipped an iteration (loss-scale overflow) is left out of the time statistics, because a skipped
iteration does less work; it is counted and shown. NaN alone leaves nothing out: the work was done.

*Samples a second* of an interval is what the log says, else `global_batch_size * 1000 /
step_time_ms`; a step time that the log lacks is derived the other way round. `source` says which.

*Runs that count.* All repeats of the cell that ended `ok`; when there is none, the repeats that
trained a step before they ended (`basis` is then "incomplete"). `did_not_run` and `pending` never
carry numbers.

*One run*: `median`, `p5` and `p95` are over its counted intervals, each interval once (percentiles
interpolate linearly), and `spread_percent` is the interquartile range as percent of the median.
*Several runs*: `median` is the median of the runs' medians, `p5` and `p95` are over the pooled
intervals of all runs, and `spread_percent` is between the runs: (largest - smallest run median) as
percent of `median`. `spread_of` says which of the two it is.

Nothing found is None with a reason, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from runner.records import Interval, Record

Basis = Literal["ok", "incomplete", "none"]
_Quantity = Callable[[Interval, int | None], tuple[float | None, str]]

# A record with one of these words carries no numbers, whatever its measurement holds.
WITHOUT_NUMBERS = frozenset({"did_not_run", "pending"})


@dataclass(frozen=True)
class Summary:
    """One quantity over the counted intervals of a cell, in the quantity's own unit.

    `spread_percent` is None when one run has a single interval: one value has no spread.
    """

    median: float
    p5: float
    p95: float
    spread_percent: float | None
    spread_of: Literal["intervals", "repeats"]
    source: Literal["log", "derived", "mixed"]


@dataclass(frozen=True)
class CellStatistics:
    """What the runs of one cell measured; every None has its reason in `missing`.

    `steps_measured` counts iterations (not log lines), summed over the runs that count;
    `window` is (first, last) iteration that a counted interval covers. Memory is the peak over
    the runs, in MiB.
    """

    basis: Basis = "none"
    samples_per_s: Summary | None = None
    step_time_ms: Summary | None = None
    memory_allocated_mib: float | None = None
    memory_used_mib: float | None = None
    final_loss: float | None = None
    steps_measured: int = 0
    steps_skipped: int = 0
    steps_nan: int = 0
    window: tuple[int, int] | None = None
    missing: dict[str, str] = field(default_factory=dict)


def measured(value: float | None) -> float | None:
    """`value` when it is a finite number above zero, else None: a time of 0 measures nothing."""
    return value if value is not None and math.isfinite(value) and value > 0 else None


def after_warmup(intervals: Iterable[Interval], warmup_iters: int) -> list[Interval]:
    """The intervals whose iterations all come after the first `warmup_iters` iterations."""
    return [i for i in intervals if i.iteration - i.iterations >= warmup_iters]


def counted_intervals(record: Record) -> list[Interval]:
    """The intervals that enter the time statistics: after warm-up, without a skipped iteration."""
    kept = after_warmup(record.measurement.intervals, record.warmup_iters)
    return [interval for interval in kept if interval.skipped <= 0]


def samples_per_s(interval: Interval, global_batch_size: int | None) -> tuple[float | None, str]:
    """Sequences a second of the whole job in one interval, and "log" or "derived"."""
    if (logged := measured(interval.samples_per_s)) is not None:
        return logged, "log"
    time = measured(interval.step_time_ms)
    batch = measured(global_batch_size)
    return _per(batch, time), "derived"


def step_time_ms(interval: Interval, global_batch_size: int | None) -> tuple[float | None, str]:
    """Milliseconds an iteration in one interval, and "log" or "derived"."""
    if (logged := measured(interval.step_time_ms)) is not None:
        return logged, "log"
    rate = measured(interval.samples_per_s)
    batch = measured(global_batch_size)
    return _per(batch, rate), "derived"


def _per(batch: float | None, by: float | None) -> float | None:
    """Sequences an iteration over ms (or sequences a second): sequences a second (or ms)."""
    return None if batch is None or by is None else measured(batch * 1000 / by)


def final_loss(record: Record) -> tuple[float | None, str]:
    """The last logged loss of a run, or None and why.

    A run that ends in NaN has no final loss: an older finite one would hide the divergence.
    """
    for interval in reversed(record.measurement.intervals):
        if interval.nan > 0 or (interval.loss is not None and not math.isfinite(interval.loss)):
            return None, f"the loss was not a number at iteration {interval.iteration}"
        if interval.loss is not None:
            return interval.loss, ""
    return None, "the log shows no loss"


def quantile(values: Iterable[float], fraction: float) -> float:
    """The value below which `fraction` of `values` (at least one) lies, interpolated linearly."""
    ordered = sorted(values)
    at = fraction * (len(ordered) - 1)
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at % 1)


def summarise(runs: Sequence[Sequence[tuple[float, str]]]) -> Summary | None:
    """Sum up a quantity: one (value, source) an interval, one sequence a run; None when empty.

    The rules are in the module's docstring.
    """
    values = [[value for value, _ in run] for run in runs if run]
    if not values:
        return None
    pooled = [value for run in values for value in run]
    medians = [median(run) for run in values]
    middle = median(medians)
    spread: float | None = None
    if len(medians) > 1:
        spread = (max(medians) - min(medians)) / middle * 100
    elif len(pooled) > 1:
        spread = (quantile(pooled, 0.75) - quantile(pooled, 0.25)) / middle * 100
    sources = {source for run in runs for _, source in run}
    return Summary(
        median=middle,
        p5=quantile(pooled, 0.05),
        p95=quantile(pooled, 0.95),
        spread_percent=spread,
        spread_of="repeats" if len(medians) > 1 else "intervals",
        source="mixed" if len(sources) > 1 else "log" if sources == {"log"} else "derived",
    )


def runs_that_count(records: Sequence[Record]) -> tuple[Basis, list[Record]]:
    """Which repeats of one cell give its numbers, and on what basis."""
    ok = [record for record in records if record.status == "ok"]
    if ok:
        return "ok", ok
    trained = [
        record
        for record in records
        if record.status not in WITHOUT_NUMBERS and record.measurement.intervals
    ]
    return ("incomplete", trained) if trained else ("none", [])


def cell_statistics(records: Sequence[Record]) -> CellStatistics:
    """Statistics of one cell from the records of its repeats (any mix of statuses, or none)."""
    basis, runs = runs_that_count(records)
    if not runs:
        return CellStatistics(missing=dict.fromkeys(_QUANTITIES, "no training step was logged"))
    missing: dict[str, str] = {}
    late = [after_warmup(run.measurement.intervals, run.warmup_iters) for run in runs]
    counted = [counted_intervals(run) for run in runs]
    rates = _series(samples_per_s, runs, counted)
    times = _series(step_time_ms, runs, counted)
    why = _why_no_times(runs, late, counted)
    rate, time = summarise(rates), summarise(times)
    for name, summary in (("samples_per_s", rate), ("step_time_ms", time)):
        if summary is None:
            missing[name] = why
    loss, missing_loss = _median_final_loss(runs)
    if loss is None:
        missing["final_loss"] = missing_loss
    used = [i for run in counted for i in run]
    allocated = _peak(run.measurement.memory_allocated_mib for run in runs)
    in_use = _peak(run.measurement.memory_used_mib for run in runs)
    if allocated is None:
        missing["memory_allocated_mib"] = "the log shows no peak of the framework's allocator"
    if in_use is None:
        missing["memory_used_mib"] = "the device's memory in use was not sampled"
    return CellStatistics(
        basis=basis,
        samples_per_s=rate,
        step_time_ms=time,
        memory_allocated_mib=allocated,
        memory_used_mib=in_use,
        final_loss=loss,
        steps_measured=sum(interval.iterations for interval in used),
        steps_skipped=sum(max(i.skipped, 0) for run in late for i in run),
        steps_nan=sum(max(i.nan, 0) for run in late for i in run),
        window=_window(used),
        missing=missing,
    )


_QUANTITIES = (
    "samples_per_s",
    "step_time_ms",
    "memory_allocated_mib",
    "memory_used_mib",
    "final_loss",
)


def _series(
    of: _Quantity, runs: Sequence[Record], counted: Sequence[Sequence[Interval]]
) -> list[list[tuple[float, str]]]:
    series = []
    for run, intervals in zip(runs, counted, strict=True):
        pairs = (of(interval, run.global_batch_size) for interval in intervals)
        series.append([(value, source) for value, source in pairs if value is not None])
    return series


def _why_no_times(
    runs: Sequence[Record],
    late: Sequence[Sequence[Interval]],
    counted: Sequence[Sequence[Interval]],
) -> str:
    if not any(run.measurement.intervals for run in runs):
        return "the log shows no training step"
    if not any(late):
        return f"no logged interval lies wholly after warm-up ({runs[0].warmup_iters} iterations)"
    if not any(counted):
        return "the optimiser skipped a step in every interval after warm-up"
    return "the log shows neither step times nor a throughput to derive them from"


def _median_final_loss(runs: Sequence[Record]) -> tuple[float | None, str]:
    """Median of the runs' final losses; None when one of them has none, and why."""
    losses = []
    for run in runs:
        loss, why = final_loss(run)
        if loss is None:
            return None, why if len(runs) == 1 else f"in repeat {run.repeat} {why}"
        losses.append(loss)
    return median(losses), ""


def _peak(values: Iterable[float | None]) -> float | None:
    return max((peak for value in values if (peak := measured(value))), default=None)


def _window(intervals: Sequence[Interval]) -> tuple[int, int] | None:
    if not intervals:
        return None
    return (
        min(interval.iteration - interval.iterations for interval in intervals) + 1,
        max(interval.iteration for interval in intervals),
    )
