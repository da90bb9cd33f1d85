"""The report's plots: throughput bars, scaling lines, loss and step-time curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes

from runner.lines import printable
from runner.records import Interval, Record
from runner.report.svg import FAINT, QUIET, SERIES, TEXT, draw, line_style, mark
from runner.statistics import Summary, after_warmup, quantile, runs_that_count, step_time_ms
from runner.tables.row import Row
from runner.tables.text import number_text

_POINTS = 300  # of a curve; more could not be told apart
_Points = list[tuple[float, float]]


def plots(table: Sequence[Row]) -> dict[str, Any]:
    """The plots that the rows have data for, and the legend of their curves."""
    runs = [run for row in table if (run := _curve(row))]
    return {
        "throughput": throughput_svg(table) if any(map(_bar, table)) else None,
        "compared": any(row.comparison for row in table),
        "loss": loss_svg(runs),
        "step_time": step_time_svg(runs),
        "legend": [
            {"label": printable(run.cell), "mark": mark(index)} for index, run in enumerate(runs)
        ],
    }


def _bar(row: Row) -> Summary | None:
    return row.statistics.samples_per_s if row.finished else None


def throughput_svg(table: Sequence[Row]) -> Markup:
    """Horizontal bars of median samples/s with p5 to p95 as a line; unfinished cells by status."""

    def paint(axes: Axes) -> dict[str, str]:
        most = max(bar.p95 for row in table if (bar := _bar(row)))
        titles = {}
        for index, row in enumerate(table):
            name, at = printable(row.cell), index + 0.08
            axes.text(0, index - 0.36, name, va="center", fontsize=9.5)
            rate = _bar(row)
            if rate is None:
                axes.text(0, at, row.status, va="center", fontsize=9, color=FAINT)
                continue
            baseline = row.comparison is not None and row.comparison.is_baseline
            colour = QUIET if baseline else SERIES[0]
            (drawn,) = axes.barh(at, rate.median, height=0.42, color=colour).patches
            drawn.set_gid(f"bar{index}")
            middle, p5, p95 = map(number_text, (rate.median, rate.p5, rate.p95))
            titles[f"bar{index}"] = f"{name}: {middle} samples/s (p5 {p5}, p95 {p95})"
            axes.plot([rate.p5, rate.p95], [at, at], color=TEXT, linewidth=1.4)
            end = max(rate.median, rate.p95) + most * 0.015
            axes.text(end, at, middle, va="center", fontsize=9.5)
        axes.set(xlim=(0, most * 1.16), ylim=(len(table) - 0.45, -0.7), xlabel="samples/s")
        axes.set_yticks([])
        axes.grid(visible=False, axis="y")
        return titles

    height = 34 + 30 * len(table)
    return draw("throughput", "Median samples per second of every cell", height, paint)


def scaling_svg(series: Sequence[Mapping[str, Any]]) -> Markup:
    """samples/s over devices, one line a series, with its ideal line dotted."""

    def paint(axes: Axes) -> dict[str, str]:
        titles, ticks = {}, set()
        for index, one in enumerate(series):
            points = [(row.record.world_size, row.samples_per_s) for row in one["rows"]]
            devices, rates = zip(*points, strict=True)
            ticks |= set(devices)
            ideal = [rates[0] / devices[0] * count for count in devices]
            axes.plot(devices, ideal, color=FAINT, linewidth=1, linestyle=(0, (1, 2)))
            (line,) = axes.plot(devices, rates, marker="o", markersize=4, **line_style(index))
            line.set_gid(f"line{index}")
            titles[f"line{index}"] = f"{one['kind']}: {one['label']}"
        if max(ticks) > 8 * min(ticks):  # on both axes, so that ideal stays a straight line
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:.4g}")
        else:
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
        axes.set_xticks(sorted(ticks), labels=[str(tick) for tick in sorted(ticks)])
        axes.minorticks_off()
        axes.set(xlabel="devices", ylabel="samples/s")
        return titles

    return draw("scaling", "Samples per second over the number of devices", 260, paint)


def _curve(row: Row) -> Record | None:
    """The run whose curves stand for the cell: the first of those that its numbers are from."""
    _, runs = runs_that_count(row.records)
    return next((run for run in runs if run.measurement.intervals), None)


def loss_svg(runs: Sequence[Record]) -> Markup | None:
    """Loss over iterations, one line a run; None when no run logs it."""
    lines = [_finite((i.iteration, i.loss) for i in run.measurement.intervals) for run in runs]
    return _curves("loss", runs, lines)


def step_time_svg(runs: Sequence[Record]) -> Markup | None:
    """Step time over iterations; the frame fits the steps after warm-up, not slower first ones."""
    lines = [_step_times(run, run.measurement.intervals) for run in runs]
    after = [
        time
        for run in runs
        for _, time in _step_times(run, after_warmup(run.measurement.intervals, run.warmup_iters))
    ]
    if not after:
        return _curves("step time, ms", runs, lines)
    low, high = min(after), quantile(after, 0.99)
    room = 0.15 * (high - low) or 0.1 * high
    return _curves("step time, ms", runs, lines, (low - room, high + room))


def _step_times(run: Record, intervals: Iterable[Interval]) -> _Points:
    return _finite((i.iteration, step_time_ms(i, run.global_batch_size)[0]) for i in intervals)


def _finite(pairs: Iterable[tuple[int, float | None]]) -> _Points:
    return [(x, y) for x, y in pairs if y is not None and math.isfinite(y)]


def _thinned(points: _Points) -> _Points:
    """At most _POINTS points: medians of neighbours."""
    parts = min(len(points), _POINTS)
    cuts = [len(points) * part // parts for part in range(parts + 1)] if parts else []
    near = [points[low:high] for low, high in pairwise(cuts)]
    return [(median(x for x, _ in part), median(y for _, y in part)) for part in near]


def _curves(
    title: str,
    runs: Sequence[Record],
    lines: Sequence[_Points],
    frame: tuple[float, float] | None = None,
) -> Markup | None:
    """A quantity over iterations, one line a run; None when no run has the quantity."""
    if not any(lines):
        return None

    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        for index, (run, points) in enumerate(zip(runs, lines, strict=True)):
            if points:
                x, y = zip(*_thinned(points), strict=True)
                marker = "o" if len(points) == 1 else None
                (line,) = axes.plot(x, y, marker=marker, markersize=3.5, **line_style(index))
                line.set_gid(f"line{index}")
                titles[f"line{index}"] = printable(run.cell)
        axes.set(xlabel="iteration", ylabel=title, ylim=frame)
        axes.grid(visible=False, axis="x")
        return titles

    name = title.split(",")[0].replace(" ", "-")
    return draw(name, f"{title} over iterations, one line a cell", 260, paint)
