"""Steps that count, and what they say: medians, percentiles and spread of a cell's runs.

Pure: records in, numbers out. docs/measures.md has the definitions for people; in full:

*Counted intervals.* An interval counts when every iteration that it covers comes after the
warm-up, which begins with the run's first logged line (runner/logs/nodes.py has the rule); where no
`warmup_iters` was given, warmup.py finds where each run's ends. Of those, an interval in which the
optimiser skipped an iteration (loss-scale overflow) is left out of the time statistics, because a
skipped iteration does less work; it is counted and shown. NaN alone leaves nothing out: the work
was done.

*Samples per second* of an interval is the logged value, else `global_batch_size * 1000 /
step_time_ms`; a step time that the log lacks is derived the other way round. `source` says which.

*Runs that count.* All repeats of the cell that ended `ok`; without any, the repeats that
trained a step before they ended (`basis` is then "incomplete"). `no_steps`, `did_not_run`,
`pending` and `running` never carry numbers.

*A run's value* is its work over its time: samples over the seconds of the counted lines, or
milliseconds over iterations (run_mean.py). *A cell's `value`* is the mean of its runs' times, for a
rate turned over again. `median` is given beside it: the median line of a run, the mean of the runs'
medians; occasional stalls affect `value`, not `median` (`stalls_percent`).
`confidence` is of `value`, over the runs (between_runs.py). `p5` and `p95` are over the pooled
lines of all runs, each line once (percentiles interpolate linearly).

`spread_percent` is, of one run, the interquartile range of its lines as percent of their median,
and of several (largest - smallest run) as percent of `value`. `spread_of` says which of the two it
is, of `cv_percent` (coefficient of variation: standard deviation in percent of the mean) too.

Nothing found is None with a reason, never 0.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, harmonic_mean, median
from typing import Literal

import numpy as np

from runner.figures.between_runs import CellTimes, cell_times, of_values
from runner.figures.drift import Drift, drift
from runner.figures.experts import ExpertFigures, experts
from runner.figures.learning import last_loss
from runner.figures.medians import median_interval
from runner.figures.power import Power, cell_power
from runner.figures.run_mean import RunMean, run_mean
from runner.figures.startup import Startup, startup
from runner.figures.warmup import begins_steady, steady_from
from runner.logs.nodes import Warmup, began_after
from runner.terms.memory import MEMORY
from runner.terms.record import NOT_ENDED, Interval, Record, missing_in_all

Basis = Literal["ok", "incomplete", "none"]
_Quantity = Callable[[Interval, int | None], tuple[float | None, str]]

_TINY = 1e-300  # beyond which a number or its inverse is not finite
NO_STEP = "no training step was logged"
NO_MEMORY = {
    "memory_allocated_mib": "the log shows no peak that the framework's allocator gave out",
    "memory_reserved_mib": "the log shows no peak that the framework's allocator reserved",
    "memory_used_mib": "the device's memory in use was not sampled",
    "memory_rss_mib": "the log shows no memory of a process on a CPU",
}
# A record with one of these statuses carries no numbers, whatever its measurement holds.
WITHOUT_NUMBERS = frozenset({"no_steps", "did_not_run", "unreadable", *NOT_ENDED})


@dataclass(frozen=True)
class Summary:
    """One quantity over the counted lines of a cell, in the quantity's own unit."""

    value: float  # work over time, or time over work
    median: float
    p5: float
    p95: float
    spread_percent: float | None  # None: one run with a single line
    spread_of: Literal["intervals", "repeats"]
    source: Literal["log", "derived", "mixed"]
    cv_percent: float | None = None
    confidence: tuple[float, float] | None = None  # 95 %, of `value`
    median_confidence: tuple[float, float] | None = None  # 95 %, of `median`
    runs: tuple[float | None, ...] = ()  # each run's value, None of one without any

    @property
    def ci_low(self) -> float | None:
        """The lower end of the confidence interval."""
        return self.confidence[0] if self.confidence else None

    @property
    def ci_high(self) -> float | None:
        """The upper end of the confidence interval."""
        return self.confidence[1] if self.confidence else None

    @property
    def median_ci_low(self) -> float | None:
        """The lower end of the median's confidence interval."""
        return self.median_confidence[0] if self.median_confidence else None

    @property
    def median_ci_high(self) -> float | None:
        """The upper end of the median's confidence interval."""
        return self.median_confidence[1] if self.median_confidence else None


@dataclass(frozen=True)
class CellStatistics:
    """What the runs of one cell measured; every None has its reason in `missing`.

    `steps_by_run` counts the iterations of the counted lines, `logged_lines` all lines, over the
    runs that count. `times` are those of their runs, by sample where the batch is known, else by
    iteration; `drifts` are in the same. A counted line covers `iterations_per_line` iterations,
    None where lines differ. In `lines_not_finite`, of the counted, a loss or gradient norm is not
    a finite number. `window` is (first, last) iteration that a counted interval covers. Memory is
    the peak over the runs, in MiB; only `memory_rss_mib`, which varies from run to run, is the
    mean of `rss_by_run`, each run's largest process. `warmup` is how many first iterations were
    left out of each run, the most of any run, `warmup_found` whether we found it ourselves;
    `steps_left_out` is the sum over the runs of iterations that were logged and left out.
    `warmup_counted`: a run's first line, with its compilation and warm-up, is counted, and
    slower, or among few. `log_tflop_per_s` is of one device, by the trainer's own count.
    `unmatched` has the reason for each of the matrix's own patterns that matched nothing.
    """

    basis: Basis = "none"
    samples_per_s: Summary | None = None
    times: CellTimes | None = None
    step_time_ms: Summary | None = None
    power: Power = field(default_factory=lambda: Power(missing=NO_STEP))
    startup: Startup = field(default_factory=Startup)
    experts: ExpertFigures = field(default_factory=ExpertFigures)
    log_tflop_per_s: float | None = None
    memory_allocated_mib: float | None = None
    memory_reserved_mib: float | None = None
    memory_used_mib: float | None = None
    memory_rss_mib: float | None = None
    rss_by_run: tuple[float, ...] = ()
    final_loss: float | None = None
    logged_lines: int = 0
    counted_lines: int = 0
    steps_by_run: tuple[int, ...] = ()
    steps_skipped: int = 0
    steps_nan: int = 0
    lines_not_finite: int = 0
    window: tuple[int, int] | None = None
    warmup: int | None = None
    warmup_found: bool = False
    steps_left_out: int = 0
    warmup_counted: bool = False
    drifts: tuple[Drift, ...] = ()
    iterations_per_line: int | None = None
    missing: dict[str, str] = field(default_factory=dict)
    unmatched: dict[str, str] = field(default_factory=dict)

    @property
    def steps_measured(self) -> int:
        """Iterations of the counted lines of all runs."""
        return sum(self.steps_by_run)

    @property
    def rss_interval(self) -> tuple[float, float] | None:
        """The confidence interval of `memory_rss_mib` over the runs; None of one."""
        return of_values(self.rss_by_run).interval if self.rss_by_run else None

    @property
    def stalls_percent(self) -> float | None:
        """How much more time the steps took than if each had been the median one, in percent."""
        if rate := self.samples_per_s:
            return (rate.median / rate.value - 1) * 100
        time = self.step_time_ms
        return (time.value / time.median - 1) * 100 if time else None

    @property
    def drift(self) -> Drift | None:
        """That of the run that drifts most, in step time (positive: slower)."""
        return max(self.drifts, key=lambda drift: abs(drift.percent), default=None)


def measured(value: float | None) -> float | None:
    """Return `value` when it is a finite number above zero, else None: a time of 0 measures
    nothing.
    """
    is_figure = value is not None and math.isfinite(value) and _TINY < value < 1 / _TINY
    return value if is_figure else None


def late_intervals(intervals: Iterable[Interval], warmup_iters: int) -> list[Interval]:
    """Return the intervals whose iterations all come after the run's first `warmup_iters`."""
    rule = Warmup(warmup_iters)
    return [
        interval for interval in intervals if rule.over(interval.iteration, interval.iterations)
    ]


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
        time, _ = step_time_ms(interval, record.global_batch_size)
        if time is None and (rate := measured(interval.samples_per_s)) is not None:
            time = 1 / rate  # any unit will do
        if time is not None and math.isfinite(time) and interval.skipped <= 0:
            steps.append((interval.iteration, time))
    out = steady_from([time for _, time in steps])
    last_warm = max((iteration for iteration, _ in steps[:out]), default=0)
    if any(iteration > lines[0].iteration for iteration, _ in steps):
        last_warm = max(last_warm, lines[0].iteration)
    began = began_after(lines[0].iteration, lines[0].iterations, lines[1].iterations)
    return max(0, last_warm - began)


def counted_intervals(record: Record) -> list[Interval]:
    """Return the intervals that enter the time statistics: after warm-up, without a skipped
    iteration.
    """
    late = late_intervals(record.measurement.intervals, warmup_of(record))
    return [interval for interval in late if interval.skipped <= 0]


def samples_per_s(interval: Interval, global_batch_size: int | None) -> tuple[float | None, str]:
    """Return sequences per second of the whole job in one interval, and "log" or "derived"."""
    if (logged := measured(interval.samples_per_s)) is not None:
        return logged, "log"
    time = measured(interval.step_time_ms)
    batch = measured(global_batch_size)
    return _per(batch, time), "derived"


def step_time_ms(interval: Interval, global_batch_size: int | None) -> tuple[float | None, str]:
    """Return milliseconds per iteration in one interval, and "log" or "derived"."""
    if (logged := measured(interval.step_time_ms)) is not None:
        return logged, "log"
    rate = measured(interval.samples_per_s)
    batch = measured(global_batch_size)
    return _per(batch, rate), "derived"


def _per(batch: float | None, by: float | None) -> float | None:
    """Turn sequences per iteration over ms (or over sequences per second) into sequences per
    second (or ms).
    """
    return None if batch is None or by is None else measured(batch * 1000 / by)


@dataclass(frozen=True)
class Value:
    """A quantity in one line, "log" or "derived", and the work that it is of: samples of a rate,
    iterations of a time.
    """

    value: float
    source: str
    work: float = 1


def summarise(
    runs: Sequence[Sequence[Value]], *, rate: bool = False, stopped: bool = False
) -> Summary | None:
    """Sum up a quantity: its values in each run; None without any.

    `rate` says that it is per second, `stopped` as cell_times has it. The rules are in the
    module's docstring.
    """
    means = [mean for run in runs if (mean := _run_mean(run, rate))]
    if not means:
        return None
    values = [[item.value for item in run] for run in runs if run]
    pooled = [value for run in values for value in run]
    by_run = [_work_over_time(run) if rate else _time_over_work(run) for run in runs]
    run_values = [value for value in by_run if value is not None]
    of: Literal["intervals", "repeats"] = "repeats" if len(run_values) > 1 else "intervals"
    p5, lower, upper, p95 = map(float, np.quantile(pooled, (0.05, 0.25, 0.75, 0.95)))
    value = harmonic_mean(run_values) if rate else fmean(run_values)
    middle = fmean(map(median, values))
    wide: float | None = None
    if of == "repeats":
        wide = (max(run_values) - min(run_values)) / value * 100
    elif len(pooled) > 1:
        wide = (upper - lower) / middle * 100
    sources = {item.source for run in runs for item in run}
    return Summary(
        value=value,
        median=middle,
        p5=p5,
        p95=p95,
        spread_percent=wide,
        spread_of=of,
        source="mixed" if len(sources) > 1 else "log" if sources == {"log"} else "derived",
        cv_percent=_variation(run_values if of == "repeats" else pooled),
        confidence=_turned_interval(cell_times(means, stopped=stopped).interval, rate),
        median_confidence=median_interval(values),
        runs=tuple(by_run),
    )


def _run_mean(run: Sequence[Value], rate: bool) -> RunMean | None:
    """Return a run's mean time of a unit of work; None of a run without values."""
    if not run:
        return None
    times = [1 / item.value if rate else item.value for item in run]
    return run_mean(times, [item.work for item in run])


def _time_over_work(run: Sequence[Value]) -> float | None:
    """Return the mean of times, each as long as its work; None of a run without values."""
    if not run:
        return None
    largest = max(item.value for item in run)  # so that no sum overflows
    work = math.fsum(item.work for item in run)
    return largest * (math.fsum(item.value / largest * item.work for item in run) / work)


def _work_over_time(run: Sequence[Value]) -> float | None:
    """Return the mean of rates, each over the time of its work; None of a run without values."""
    if not run:
        return None
    least = min(item.value for item in run)  # so that no sum overflows
    work = math.fsum(item.work for item in run)
    return least * (work / math.fsum(least / item.value * item.work for item in run))


def _turned_interval(times: tuple[float, float] | None, rate: bool) -> tuple[float, float] | None:
    """Turn the interval of a time into that of a rate; None where it has no end."""
    if times is None or not rate:
        return times
    return (1 / times[1], 1 / times[0]) if times[0] > 0 else None


def _variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation: sample standard deviation in percent of the mean."""
    if len(values) < 2:
        return None
    series = np.asarray(values, np.float64)
    shares = series / float(series.max())  # so that no square overflows
    return float(np.std(shares, ddof=1) / np.mean(shares) * 100)


def runs_that_count(records: Sequence[Record]) -> tuple[Basis, list[Record]]:
    """Choose which repeats of one cell give its numbers, and say on what basis."""
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
    """Compute the statistics of one cell from the records of its repeats (any mix of
    statuses, or none).
    """
    basis, runs = runs_that_count(records)
    if not runs:
        return CellStatistics(missing=dict.fromkeys(_QUANTITIES, NO_STEP))
    missing: dict[str, str] = {}
    warm = [warmup_of(run) for run in runs]
    late = [
        late_intervals(run.measurement.intervals, out) for run, out in zip(runs, warm, strict=True)
    ]
    counted = [[interval for interval in intervals if interval.skipped <= 0] for intervals in late]
    times = _series(step_time_ms, runs, counted, _iterations)
    doubt = next((why for run in runs if (why := run.measurement.rate_doubt)), "")
    rates = _series(samples_per_s, runs, [[] for _ in runs] if doubt else counted, _samples)
    stopped = any(run.until_percent is not None for run in runs)
    rate = summarise(rates, rate=True, stopped=stopped)
    time = summarise(times, stopped=stopped)
    means = _run_means(rates, times)
    why = _why_no_times(runs, warm, late, counted)
    unmatched = missing_in_all(run.measurement.missing for run in runs)
    unread = _unread(unmatched)
    for name, summary in (("samples_per_s", rate), ("step_time_ms", time)):
        if summary is None:
            missing[name] = (doubt if name == "samples_per_s" else "") or unread.get(name, why)
    loss, missing_loss = _median_final_loss(runs)
    if loss is None:
        missing["final_loss"] = unread.get("loss", missing_loss)
    used = [i for run in counted for i in run]
    memory = {key: _peaks(runs, key) for key in MEMORY}
    missing |= {key: unread.get(key, NO_MEMORY[key]) for key in MEMORY if not memory[key]}
    return CellStatistics(
        basis=basis,
        samples_per_s=rate,
        times=cell_times(means, stopped=stopped) if means else None,
        step_time_ms=time,
        power=cell_power(runs, counted),
        startup=startup(runs),
        experts=experts(runs),
        log_tflop_per_s=_log_tflops(counted),
        memory_allocated_mib=max(memory["memory_allocated_mib"], default=None),
        memory_reserved_mib=max(memory["memory_reserved_mib"], default=None),
        memory_used_mib=max(memory["memory_used_mib"], default=None),
        memory_rss_mib=fmean(memory["memory_rss_mib"]) if memory["memory_rss_mib"] else None,
        rss_by_run=memory["memory_rss_mib"],
        final_loss=loss,
        logged_lines=sum(len(run.measurement.intervals) for run in runs),
        counted_lines=len(used),
        steps_by_run=tuple(sum(interval.iterations for interval in run) for run in counted),
        steps_skipped=sum(max(i.skipped, 0) for run in late for i in run),
        steps_nan=sum(max(i.nan, 0) for run in late for i in run),
        lines_not_finite=sum(not _finite(interval) for interval in used),
        window=_window(used),
        warmup=max(warm),
        warmup_found=any(run.warmup_iters is None for run in runs),
        steps_left_out=sum(max(i.iterations, 0) for run in runs for i in run.measurement.intervals)
        - sum(max(i.iterations, 0) for intervals in late for i in intervals),
        unmatched=unmatched,
        warmup_counted=any(
            intervals
            and steps
            and intervals[0] is run.measurement.intervals[0]
            and not begins_steady([item.value for item in steps])
            for run, intervals, steps in zip(runs, counted, times, strict=True)
        ),
        drifts=tuple(filter(None, map(drift, _times(rates, times)))),
        iterations_per_line=_per_line(used),
        missing=missing,
    )


def _unread(reasons: Mapping[str, str]) -> dict[str, str]:
    """Map each quantity to the reason why it is missing."""
    reasons = {**reasons, **{key: reasons[key[:-4]] for key in MEMORY if key[:-4] in reasons}}
    if why := reasons.get("memory"):
        reasons.setdefault("memory_allocated_mib", why)
    if why := reasons.get("step_time"):
        reasons |= {"step_time_ms": why, "samples_per_s": reasons.get("samples_per_s", why)}
    return reasons


_QUANTITIES = (
    "samples_per_s",
    "step_time_ms",
    *MEMORY,
    "final_loss",
)


def _series(
    of: _Quantity,
    runs: Sequence[Record],
    counted: Sequence[Sequence[Interval]],
    work: Callable[[Interval, Record], float],
) -> list[list[Value]]:
    series = []
    for run, intervals in zip(runs, counted, strict=True):
        values = []
        for interval in intervals:
            value, source = of(interval, interval.global_batch_size or run.global_batch_size)
            if value is not None:
                values.append(Value(value, source, work(interval, run)))
        series.append(values)
    return series


def _iterations(interval: Interval, run: Record) -> float:
    return max(interval.iterations, 1)


def _samples(interval: Interval, run: Record) -> float:
    batch = measured(interval.global_batch_size or run.global_batch_size)
    return max(interval.iterations, 1) * (batch or 1)


def _times(rates: Sequence[Sequence[Value]], times: Sequence[Sequence[Value]]) -> list[list[float]]:
    """Return the times of each run's lines: of a sample where any rate is known, else of a step."""
    if any(rates):
        return [[1 / item.value for item in run] for run in rates]
    return [[item.value for item in run] for run in times]


def _run_means(rates: Sequence[Sequence[Value]], times: Sequence[Sequence[Value]]) -> list[RunMean]:
    runs, rate = (rates, True) if any(rates) else (times, False)
    return [mean for run in runs if (mean := _run_mean(run, rate))]


def _per_line(intervals: Sequence[Interval]) -> int | None:
    """Return the iterations of a line, where all but a run's last have the same."""
    covered = [interval.iterations for interval in intervals]
    usual = int(median(covered)) if covered else 0
    alike = sum(count == usual for count in covered)
    return usual if covered and alike >= 0.8 * len(covered) else None


def _why_no_times(
    runs: Sequence[Record],
    warm: Sequence[int],
    late: Sequence[Sequence[Interval]],
    counted: Sequence[Sequence[Interval]],
) -> str:
    if not any(run.measurement.intervals for run in runs):
        return "the log shows no training step"
    if not any(late):
        if all(run.profile for run in runs):
            return "a profiler ran along in all logged iterations"
        return f"no logged interval lies wholly after warm-up ({warm[0]} iterations)"
    if not any(counted):
        return "the optimiser skipped a step in every interval after warm-up"
    return "the log shows neither step times nor a throughput to derive them from"


def _log_tflops(counted: Iterable[Iterable[Interval]]) -> float | None:
    """Return the median of the runs' medians of what their lines say; None where none does."""
    by_run = [[rate for step in run if (rate := measured(step.tflop_per_s))] for run in counted]
    return median([median(rates) for rates in by_run if rates]) if any(by_run) else None


def _median_final_loss(runs: Sequence[Record]) -> tuple[float | None, str]:
    """Return median of the runs' final losses; None when one of them has none, and why."""
    losses = []
    for run in runs:
        loss, why = last_loss(run.measurement.intervals)
        if loss is None:
            return None, why if len(runs) == 1 else f"in repeat {run.repeat} {why}"
        losses.append(loss)
    return median(losses), ""


def _finite(interval: Interval) -> bool:
    figures = (interval.loss, interval.grad_norm)
    return all(value is None or math.isfinite(value) for value in figures)


def _peaks(runs: Sequence[Record], key: str) -> tuple[float, ...]:
    """Return a figure of memory of each run that has it."""
    peaks = (measured(getattr(run.measurement, key)) for run in runs)
    return tuple(peak for peak in peaks if peak is not None)


def _window(intervals: Sequence[Interval]) -> tuple[int, int] | None:
    if not intervals:
        return None
    return (
        min(interval.iteration - interval.iterations for interval in intervals) + 1,
        max(interval.iteration for interval in intervals),
    )
