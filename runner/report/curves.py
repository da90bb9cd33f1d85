"""Loss and step time over iterations, one curve a cell; many cells as small plots. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from node.printable import printable
from runner.figures.cell_statistics import runs_that_count
from runner.figures.counted_steps import late_intervals, warmup_of
from runner.figures.measured_cell import MeasuredCell
from runner.figures.run_curves import Points, thinned, times
from runner.report.groups import MOST_PANELS, axes_of, colours, groups
from runner.report.links import href
from runner.report.svg import PANEL, WIDTH, draw, line_style, mark
from runner.tables.row import Row
from runner.terms.record import Record

POINTS = 300  # of a curve; more could not be told apart
FEW_POINTS = 120  # of a curve in a small plot
_Frame = tuple[float, float] | None


@dataclass(frozen=True)
class DrawnRun:
    """One run's curves stand for its cell."""

    row: Row
    run: Record


def curves_of(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> list[DrawnRun]:
    """Return the runs whose curves are drawn, in the order of their cells."""
    pairs = zip(cells, table, strict=True)
    return [DrawnRun(row, run) for cell, row in pairs if (run := _run(cell))]


def _run(cell: MeasuredCell) -> Record | None:
    """Return the run whose curves stand for the cell: the first of those that its numbers
    are from.
    """
    _, runs = runs_that_count(cell.records)
    return next((run for run in runs if run.measurement.intervals), None)


def after_warmup_frame(runs: Sequence[Record]) -> _Frame:
    """Frame the steps after warm-up, from the fastest to the slowest, not slower first ones."""
    after = [
        time
        for run in runs
        for _, time in times(run, late_intervals(run.measurement.intervals, warmup_of(run)))
    ]
    if not after:
        return None
    low, high = min(after), float(np.quantile(after, 0.99))
    room = 0.15 * (high - low) or 0.1 * high
    return low - room, high + room


def panels(
    title: str,
    curves: Sequence[DrawnRun],
    of: Callable[[Record], Points],
    *,
    frame: Callable[[Sequence[Record]], _Frame] | None = None,
    shared: bool = False,
) -> dict[str, Any] | None:
    """Draw a quantity over iterations, one curve a cell; None when no run has the quantity.

    With `shared` all panels have the same scale, so that they can be compared.
    """
    drawn = [(curve, points) for curve in curves if (points := of(curve.run))]
    if not drawn:
        return None
    grouped = groups(axes_of([curve.row for curve, _ in drawn]))
    by_name = colours(grouped)
    low = min(y for _, points in drawn for _, y in points)
    high = max(y for _, points in drawn for _, y in points)
    all_of_them = (low - 0.04 * (high - low), high + 0.04 * (high - low)) if high > low else None
    panels = []
    for number, group in enumerate(grouped[:MOST_PANELS]):
        members = [drawn[index] for index in group.members]
        places = [by_name[name] if by_name else index for index, name in enumerate(group.names)]
        limits = frame([curve.run for curve, _ in members]) if frame else None
        if shared and len(grouped) > 1:
            limits = all_of_them
        few = len(grouped) > 1
        panels.append(
            {
                "title": group.label,
                "svg": _curves(
                    f"{title.split(',')[0]}-{number}", title, members, places, limits, few
                ),
                "legend": _legend(group.names, places) if not by_name else [],
            }
        )
    legend = _legend(list(by_name), list(by_name.values())) if by_name else []
    if len(drawn) == 1:
        legend = []
    return {
        "panels": panels,
        "legend": legend,
        "left_out": sum(len(group.members) for group in grouped[MOST_PANELS:]),
    }


def _legend(names: Sequence[str], places: Sequence[int]) -> list[dict[str, Any]]:
    return [
        {"label": name, "mark": mark(index)}
        for name, index in zip(names, places, strict=True)
        if name
    ]


def _curves(
    name: str,
    title: str,
    members: Sequence[tuple[DrawnRun, Points]],
    places: Sequence[int],
    limits: _Frame,
    few: bool,
) -> Markup:
    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        drawn = sorted(enumerate(zip(members, places, strict=True)), key=_longest_first)
        for index, ((curve, points), place) in drawn:
            x, y = zip(*thinned(points, FEW_POINTS if few else POINTS), strict=True)
            marker = "o" if len(points) == 1 else None
            (line,) = axes.plot(x, y, marker=marker, markersize=3.5, **line_style(place))
            line.set_gid(f"line{index}")
            titles[f"line{index}"] = printable(curve.row["cell"])
            if link := href(curve.run.log):
                line.set_url(link)
        axes.set(xlabel="iteration", ylabel=title, ylim=limits)
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.grid(visible=False, axis="x")
        return titles

    label = f"{title} over iterations, one line per cell"
    return draw(name.replace(" ", "-"), label, 190 if few else 260, paint, PANEL if few else WIDTH)


def _longest_first(drawn: tuple[int, tuple[tuple[DrawnRun, Points], int]]) -> int:
    """Order curves so that a run that was cut short is drawn above those that went on."""
    _, ((_, points), _) = drawn
    return -len(points)
