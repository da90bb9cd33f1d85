"""What the runs of one cell measured. Pure: records in, numbers out.

docs/measures.md has the definitions for people; counted_steps.py says which steps count, summary.py
how a quantity is summed up.

*Runs that count.* All repeats of the cell that ended `ok`; without any, the repeats that
trained a step before they ended (`basis` is then "incomplete"). `no_steps`, `did_not_run`,
`pending` and `running` never carry numbers.

Nothing found is None with a reason, never 0.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, harmonic_mean, median
from typing import Literal

from runner.figures.between_runs import CellTimes, cell_times
from runner.figures.counted_steps import (
    counts,
    late_intervals,
    measured,
    samples_per_s,
    step_time_ms,
    warmup_of,
)
from runner.figures.drift import Drift, drift
from runner.figures.experts import ExpertFigures, experts
from runner.figures.learning import last_loss
from runner.figures.power import Power, cell_power
from runner.figures.run_mean import RunMean
from runner.figures.startup import Startup, startup
from runner.figures.summary import Summary, Value, mean_of_run, summarise
from runner.figures.warmup import begins_steady
from runner.terms.memory import MEMORY
from runner.terms.record import NOT_ENDED, Interval, Record, missing_in_all

Basis = Literal["ok", "incomplete", "none"]
_Quantity = Callable[[Interval, int | None], tuple[float | None, str]]
NO_STEP = "no training step was logged"
NO_MEMORY = {
    "memory_allocated_mib": "the log shows no peak that the framework's allocator gave out",
    "memory_reserved_mib": "the log shows no peak that the framework's allocator reserved",
    "memory_used_mib": "the device's memory in use was not sampled",
    "memory_rss_mib": "the log shows no memory of a process on a CPU",
}
# A record with one of these statuses carries no numbers, whatever its measurement holds.
WITHOUT_NUMBERS = frozenset({"no_steps", "did_not_run", "unreadable", *NOT_ENDED})
_QUANTITIES = (
    "samples_per_s",
    "step_time_ms",
    *MEMORY,
    "final_loss",
)


@dataclass(frozen=True)
class CellStatistics:
    """What the runs of one cell measured; every None has its reason in `missing`.

    `steps_by_run` counts the iterations of the counted lines, `logged_lines` all lines, over the
    runs that count. `times` are those of their runs, by sample where the batch is known, else by
    iteration; `drifts` are in the same. A counted line covers `iterations_per_line` iterations,
    None where lines differ. In `lines_not_finite`, of the counted, a loss or gradient norm is not
    a finite number. Where arrivals time the runs,
    `logged_samples_per_s` is what the trainer says of the counted lines, and `lines_paused` hold an
    evaluation or a checkpoint and are left out. `window` is (first, last) iteration that a counted
    interval covers. Memory is the peak over the runs, in MiB; only `memory_rss_mib`, which varies
    from run to run, is the mean of `rss_by_run`, each run's largest process. `warmup` is how many
    first iterations were left out of each run, the most of any run, `warmup_found` whether we found
    it ourselves. `warmup_counted`: a run's first line, with its compilation and warm-up, is
    counted, and slower, or among few. `log_tflop_per_s` is of one device, by the trainer's own
    count.
    `unmatched` has the reason for each of the matrix's own patterns that matched nothing.
    """

    basis: Basis = "none"
    samples_per_s: Summary | None = None
    times: CellTimes | None = None
    half_by_steps: float | None = None
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
    lines_paused: int = 0
    logged_samples_per_s: float | None = None
    lines_not_finite: int = 0
    window: tuple[int, int] | None = None
    warmup: int | None = None
    warmup_found: bool = False
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
    counted = [list(filter(counts, intervals)) for intervals in late]
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
        half_by_steps=means[0].half if len(means) == 1 else None,
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
        lines_paused=sum(interval.paused for run in late for interval in run),
        logged_samples_per_s=_logged(counted),
        lines_not_finite=sum(not _finite(interval) for interval in used),
        window=_window(used),
        warmup=max(warm),
        warmup_found=any(run.warmup_iters is None for run in runs),
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
            value, _ = of(interval, interval.global_batch_size or run.global_batch_size)
            if value is not None:
                values.append(Value(value, work(interval, run)))
        series.append(values)
    return series


def _iterations(interval: Interval, run: Record) -> float:
    return max(interval.iterations, interval.timed, 1)


def _samples(interval: Interval, run: Record) -> float:
    batch = measured(interval.global_batch_size or run.global_batch_size)
    return max(interval.iterations, interval.timed, 1) * (batch or 1)


def _times(rates: Sequence[Sequence[Value]], times: Sequence[Sequence[Value]]) -> list[list[float]]:
    """Return the times of each run's lines: of a sample where any rate is known, else of a step."""
    if any(rates):
        return [[1 / item.value for item in run] for run in rates]
    return [[item.value for item in run] for run in times]


def _run_means(rates: Sequence[Sequence[Value]], times: Sequence[Sequence[Value]]) -> list[RunMean]:
    runs, rate = (rates, True) if any(rates) else (times, False)
    return [mean for run in runs if (mean := mean_of_run(run, rate))]


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
    untimed = next((why for run in runs if (why := run.measurement.untimed)), "")
    return untimed or "the log shows neither step times nor a throughput to derive them from"


def _log_tflops(counted: Iterable[Iterable[Interval]]) -> float | None:
    """Return the median of the runs' medians of what their lines say; None where none does."""
    by_run = [[rate for step in run if (rate := measured(step.tflop_per_s))] for run in counted]
    return median([median(rates) for rates in by_run if rates]) if any(by_run) else None


def _logged(counted: Iterable[Iterable[Interval]]) -> float | None:
    """Return the mean of the runs' own figures, where arrivals time them; None without one."""
    by_run = [[measured(step.logged_samples_per_s) for step in run] for run in counted]
    means = [harmonic_mean(rates) for run in by_run if (rates := [rate for rate in run if rate])]
    return harmonic_mean(means) if means else None


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
