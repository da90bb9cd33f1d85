"""What the runs of one cell measured. Pure: records in, numbers out.

docs/measures.md has the definitions for people; counted_steps.py says which steps count.

*Runs that count.* All repeats of the cell that ended `ok`; without any, the repeats that
trained a step before they ended (`basis` is then "incomplete"). `no_steps`, `did_not_run`,
`pending` and `running` never carry numbers.

*A run's value* is its work over its time: samples over the seconds of the counted lines, or
milliseconds over iterations (run_mean.py). *A cell's `value`* is the mean of its runs' times, for a
rate turned over again. `median` is given beside it: the median line of a run, the mean of the runs'
medians; occasional stalls affect `value`, not `median` (`stalls_percent`).

Nothing found is None with a reason, never 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, harmonic_mean, median
from typing import Literal, NamedTuple

import numpy as np

from runner.figures.between_runs import CellTimes, cell_times
from runner.figures.counted_steps import (
    counts,
    late_intervals,
    measured,
    samples_per_s,
    step_time_ms,
    warmup_of,
)
from runner.figures.curves import last_loss
from runner.figures.power import NO_STEP
from runner.figures.run_mean import Drift, RunMean, drift, run_mean
from runner.figures.warmup import begins_steady
from runner.terms.cell import FEWEST_REPEATS
from runner.terms.memory import MEMORY
from runner.terms.record import NOT_ENDED, Interval, Record, missing_in_all

Basis = Literal["ok", "incomplete", "none"]
NO_MEMORY = {
    "memory_allocated_mib": "the log shows no peak that the framework's allocator gave out",
    "memory_reserved_mib": "the log shows no peak that the framework's allocator reserved",
    "memory_used_mib": "the device's memory in use was not sampled",
    "memory_rss_mib": "the log shows no memory of a process on a CPU",
}
# A record with one of these statuses carries no numbers, whatever its measurement holds.
WITHOUT_NUMBERS = frozenset({"no_steps", "did_not_run", "unreadable", *NOT_ENDED})


@dataclass(frozen=True)
class Value:
    """A quantity in one line, and its work: samples of a rate, iterations of a time."""

    value: float
    work: float = 1


@dataclass(frozen=True)
class Summary:
    """One quantity over the counted lines of a cell, in the quantity's own unit.

    `spread_percent` is, of one run, the interquartile range of its lines as percent of their
    median, and of several (largest - smallest run) as percent of `value`; `spread_of` says which.
    """

    value: float  # work over time, or time over work
    median: float
    spread_percent: float | None  # None: one run with a single line
    spread_of: Literal["intervals", "repeats"]
    confidence: tuple[float, float] | None = None  # 95 %, of `value`
    runs: tuple[float | None, ...] = ()  # each run's value, None of one without any


@dataclass(frozen=True)
class CellStatistics:
    """What the runs of one cell measured; every None has its reason in `missing`.

    Of each of the `runs` that count `late` has the lines after the warm-up, whose iterations `warm`
    counts, and `counted` those of them that count. `times` are those of the runs, by sample where
    the batch is known, else by iteration; `drifts` are in the same. `memory` is the peak over the
    runs, in MiB; only `memory_rss_mib`, which varies from run to run, is the mean of `rss_by_run`,
    each run's largest process. `warmup_counted`: a run's first line, with its compilation and
    warm-up, is counted, and slower, or among few. `unmatched` has the reason for each of the
    matrix's own patterns that matched nothing.
    """

    basis: Basis = "none"
    runs: Sequence[Record] = ()
    warm: Sequence[int] = ()
    late: Sequence[Sequence[Interval]] = ()
    counted: Sequence[Sequence[Interval]] = ()
    samples_per_s: Summary | None = None
    step_time_ms: Summary | None = None
    times: CellTimes | None = None
    half_by_steps: float | None = None
    memory: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(MEMORY))
    rss_by_run: tuple[float, ...] = ()
    final_loss: float | None = None
    warmup_counted: bool = False
    drifts: tuple[Drift, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    unmatched: dict[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[Interval]:
        """The counted lines of all runs."""
        return [line for run in self.counted for line in run]

    @property
    def steps_by_run(self) -> tuple[int, ...]:
        """Iterations of each run's counted lines."""
        return tuple(sum(line.iterations for line in run) for run in self.counted)

    def after_warmup(self, count: Callable[[Interval], int]) -> int:
        """Count something in the lines after the warm-up, of all runs."""
        return sum(max(count(line), 0) for run in self.late for line in run)

    @property
    def window(self) -> tuple[int, int] | None:
        """The first and the last iteration that a counted line covers."""
        if not (lines := self.lines):
            return None
        first = min(line.iteration - line.iterations for line in lines) + 1
        return first, max(line.iteration for line in lines)

    @property
    def warmup(self) -> int | None:
        """How many first iterations were left out of each run: the most of any run."""
        return max(self.warm, default=None)

    @property
    def warmup_found(self) -> bool:
        """Whether we found where the warm-up of a run ends, as nobody had said it."""
        return any(run.warmup_iters is None for run in self.runs)

    @property
    def logged_samples_per_s(self) -> float | None:
        """The mean of the runs' own figures, where arrivals time them; None without one."""
        by_run = [[measured(line.logged_samples_per_s) for line in run] for run in self.counted]
        means = [harmonic_mean(rates) for run in by_run if (rates := [*filter(None, run)])]
        return harmonic_mean(means) if means else None

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
        keys = ("samples_per_s", "step_time_ms", *MEMORY, "final_loss")
        return CellStatistics(missing=dict.fromkeys(keys, NO_STEP))
    warm = [warmup_of(run) for run in runs]
    late = [
        late_intervals(run.measurement.intervals, out) for run, out in zip(runs, warm, strict=True)
    ]
    counted = [list(filter(counts, intervals)) for intervals in late]
    doubt = next((why for run in runs if (why := run.measurement.rate_doubt)), "")
    times = [_values(step_time_ms, run, lines, 1) for run, lines in zip(runs, counted, strict=True)]
    rates = [
        _values(samples_per_s, run, [] if doubt else lines, None)
        for run, lines in zip(runs, counted, strict=True)
    ]
    stopped = any(run.until_percent is not None for run in runs)
    rate, time = summarise(rates, rate=True, stopped=stopped), summarise(times, stopped=stopped)
    of, per_s = (rates, True) if any(rates) else (times, False)
    means = [mean for run in of if (mean := mean_of_run(run, per_s))]
    unmatched = missing_in_all(run.measurement.missing for run in runs)
    unread = _unread(unmatched)
    missing: dict[str, str] = {}
    for name, summary in (("samples_per_s", rate), ("step_time_ms", time)):
        if summary is None:
            why = unread.get(name) or _why_no_times(runs, warm, late, counted)
            missing[name] = (doubt if name == "samples_per_s" else "") or why
    loss, missing_loss = _median_final_loss(runs)
    if loss is None:
        missing["final_loss"] = unread.get("loss", missing_loss)
    memory = {key: _peaks(runs, key) for key in MEMORY}
    missing |= {key: unread.get(key, NO_MEMORY[key]) for key in MEMORY if not memory[key]}
    rss = memory["memory_rss_mib"]
    return CellStatistics(
        basis=basis,
        runs=runs,
        warm=warm,
        late=late,
        counted=counted,
        samples_per_s=rate,
        step_time_ms=time,
        times=cell_times(means, stopped=stopped) if means else None,
        half_by_steps=means[0].half if len(means) == 1 else None,
        memory={key: max(peaks, default=None) for key, peaks in memory.items()}
        | {"memory_rss_mib": fmean(rss) if rss else None},
        rss_by_run=rss,
        final_loss=loss,
        warmup_counted=any(
            lines
            and steps
            and lines[0] is run.measurement.intervals[0]
            and not begins_steady([item.value for item in steps])
            for run, lines, steps in zip(runs, counted, times, strict=True)
        ),
        drifts=tuple(
            drifts
            for run in of
            if (drifts := drift([1 / item.value if per_s else item.value for item in run]))
        ),
        missing=missing,
        unmatched=unmatched,
    )


def _values(
    of: Callable[[Interval, int | None], float | None],
    run: Record,
    lines: Sequence[Interval],
    samples: float | None,
) -> list[Value]:
    """Return a quantity in each line that has it; its work is iterations times `samples`, None: the
    batch.
    """
    values = []
    for line in lines:
        batch = line.global_batch_size or run.global_batch_size
        if (value := of(line, batch)) is not None:
            each = samples or measured(batch) or 1
            values.append(Value(value, max(line.iterations, line.timed, 1) * each))
    return values


def _unread(reasons: Mapping[str, str]) -> dict[str, str]:
    """Map each quantity to the reason why it is missing."""
    reasons = {**reasons, **{key: reasons[key[:-4]] for key in MEMORY if key[:-4] in reasons}}
    if why := reasons.get("memory"):
        reasons.setdefault("memory_allocated_mib", why)
    if why := reasons.get("step_time"):
        reasons |= {"step_time_ms": why, "samples_per_s": reasons.get("samples_per_s", why)}
    return reasons


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


def _median_final_loss(runs: Sequence[Record]) -> tuple[float | None, str]:
    """Return median of the runs' final losses; None when one of them has none, and why."""
    losses = []
    for run in runs:
        loss, why = last_loss(run.measurement.intervals)
        if loss is None:
            return None, why if len(runs) == 1 else f"in repeat {run.repeat} {why}"
        losses.append(loss)
    return median(losses), ""


def _peaks(runs: Sequence[Record], key: str) -> tuple[float, ...]:
    """Return a figure of memory of each run that has it."""
    peaks = (measured(getattr(run.measurement, key)) for run in runs)
    return tuple(peak for peak in peaks if peak is not None)


def summarise(
    runs: Sequence[Sequence[Value]], *, rate: bool = False, stopped: bool = False
) -> Summary | None:
    """Sum up a quantity: its values in each run; None without any.

    `rate` says that it is per second, `stopped` as cell_times has it.
    """
    means = [mean for run in runs if (mean := mean_of_run(run, rate))]
    if not means:
        return None
    values = [[item.value for item in run] for run in runs if run]
    pooled = [value for run in values for value in run]
    by_run = [_over_work(run, rate) for run in runs]
    run_values = [value for value in by_run if value is not None]
    value = harmonic_mean(run_values) if rate else fmean(run_values)
    middle, wide = fmean(map(median, values)), None
    if len(run_values) > 1:
        wide = (max(run_values) - min(run_values)) / value * 100
    elif len(pooled) > 1:
        lower, upper = map(float, np.quantile(pooled, (0.25, 0.75)))
        wide = (upper - lower) / middle * 100
    return Summary(
        value=value,
        median=middle,
        spread_percent=wide,
        spread_of="repeats" if len(run_values) > 1 else "intervals",
        confidence=_turned_interval(cell_times(means, stopped=stopped).interval, rate),
        runs=tuple(by_run),
    )


def mean_of_run(run: Sequence[Value], rate: bool) -> RunMean | None:
    """Return a run's mean time of a unit of work; None of a run without values."""
    if not run:
        return None
    times = [1 / item.value if rate else item.value for item in run]
    return run_mean(times, [item.work for item in run])


def _over_work(run: Sequence[Value], rate: bool) -> float | None:
    """Return the mean of times, each as long as its work, or of rates, each over the time of its
    work; None of a run without values.
    """
    if not run:
        return None
    work = math.fsum(item.work for item in run)
    if rate:
        least = min(item.value for item in run)  # so that no sum overflows
        return least * (work / math.fsum(least / item.value * item.work for item in run))
    largest = max(item.value for item in run)
    return largest * (math.fsum(item.value / largest * item.work for item in run) / work)


def _turned_interval(times: tuple[float, float] | None, rate: bool) -> tuple[float, float] | None:
    """Turn the interval of a time into that of a rate; None where it has no end."""
    if times is None or not rate:
        return times
    return (1 / times[1], 1 / times[0]) if times[0] > 0 else None


class Enough(NamedTuple):
    """Whether a cell needs no further repeat, and how sure its figure is, for people."""

    met: bool
    words: str


def enough(records: Sequence[Record], until_percent: float) -> Enough:
    """Judge a cell by the records of its repeats, three or more.

    A cell without a run that ended ok has enough: more repeats would fail, too. At least three must
    end ok.
    """
    ended = [record for record in records if record.status not in NOT_ENDED]
    good = sum(record.status == "ok" for record in ended)
    repeats = f"{len(ended)} repeats"
    if not good:
        return Enough(True, f"none of {repeats} ended ok")
    times = cell_statistics(ended).times
    if times is None:
        return Enough(True, f"no speed was measured in {repeats}")
    if good < FEWEST_REPEATS:
        return Enough(False, f"{good} of {repeats} ended ok")
    if times.interval is None:
        return Enough(False, f"no interval after {repeats}: {times.missing}")
    half = (times.interval[1] / times.mean - 1) * 100
    return Enough(half <= until_percent, f"± {half:.1f} % after {repeats}")
