"""One quantity over the counted steps of a cell's runs: mean, median, spread. Pure.

*A run's value* is its work over its time: samples over the seconds of the counted lines, or
milliseconds over iterations (run_mean.py). *A cell's `value`* is the mean of its runs' times, for a
rate turned over again. `median` is given beside it: the median line of a run, the mean of the runs'
medians; occasional stalls affect `value`, not `median` (`stalls_percent`).
`confidence` is of `value`, over the runs (between_runs.py).

`spread_percent` is, of one run, the interquartile range of its lines as percent of their median,
and of several (largest - smallest run) as percent of `value`; `spread_of` says which of the two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, harmonic_mean, median
from typing import Literal

import numpy as np

from runner.figures.between_runs import cell_times
from runner.figures.medians import median_interval
from runner.figures.run_mean import RunMean, run_mean


@dataclass(frozen=True)
class Summary:
    """One quantity over the counted lines of a cell, in the quantity's own unit."""

    value: float  # work over time, or time over work
    median: float
    spread_percent: float | None  # None: one run with a single line
    spread_of: Literal["intervals", "repeats"]
    confidence: tuple[float, float] | None = None  # 95 %, of `value`
    median_confidence: tuple[float, float] | None = None  # 95 %, of `median`
    runs: tuple[float | None, ...] = ()  # each run's value, None of one without any


@dataclass(frozen=True)
class Value:
    """A quantity in one line, and its work: samples of a rate, iterations of a time."""

    value: float
    work: float = 1


def summarise(
    runs: Sequence[Sequence[Value]], *, rate: bool = False, stopped: bool = False
) -> Summary | None:
    """Sum up a quantity: its values in each run; None without any.

    `rate` says that it is per second, `stopped` as cell_times has it. The rules are in the
    module's docstring.
    """
    means = [mean for run in runs if (mean := mean_of_run(run, rate))]
    if not means:
        return None
    values = [[item.value for item in run] for run in runs if run]
    pooled = [value for run in values for value in run]
    by_run = [_work_over_time(run) if rate else _time_over_work(run) for run in runs]
    run_values = [value for value in by_run if value is not None]
    of: Literal["intervals", "repeats"] = "repeats" if len(run_values) > 1 else "intervals"
    lower, upper = map(float, np.quantile(pooled, (0.25, 0.75)))
    value = harmonic_mean(run_values) if rate else fmean(run_values)
    middle = fmean(map(median, values))
    wide: float | None = None
    if of == "repeats":
        wide = (max(run_values) - min(run_values)) / value * 100
    elif len(pooled) > 1:
        wide = (upper - lower) / middle * 100
    return Summary(
        value=value,
        median=middle,
        spread_percent=wide,
        spread_of=of,
        confidence=_turned_interval(cell_times(means, stopped=stopped).interval, rate),
        median_confidence=median_interval(values),
        runs=tuple(by_run),
    )


def mean_of_run(run: Sequence[Value], rate: bool) -> RunMean | None:
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
