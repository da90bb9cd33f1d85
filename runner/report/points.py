"""Memory against throughput: one point a cell. Pure."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from node.printable import printable
from runner.report.groups import MOST_CURVES, axes_of
from runner.report.links import href
from runner.report.svg import SERIES, draw, mark
from runner.tables.formatting import number_text
from runner.tables.row import Row, axis_names, finished, log_of
from runner.terms.memory import MEMORY


def memory_plot(table: Sequence[Row]) -> dict[str, Any] | None:
    """Draw samples/s of a device over memory, a point a cell; None without two cells to set apart.

    Memory is the best known figure of it that two rows have.
    """
    for key, figure in MEMORY.items():
        label = f"memory {figure.title}, MiB"
        rows = [
            row
            for row in filter(finished, table)
            if row["figures"]["samples_per_s_per_device"] and row["figures"][key]
        ]
        if len(rows) > 1:
            return _scatter(rows, key, label)
    return None


def _scatter(rows: Sequence[Row], key: str, label: str) -> dict[str, Any]:
    axis, values = telling_axis(rows)
    kinds = list(dict.fromkeys(values))

    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        for index, (row, value) in enumerate(zip(rows, values, strict=True)):
            used, rate = row["figures"][key], row["figures"]["samples_per_s_per_device"]
            colour = SERIES[kinds.index(value) % len(SERIES)]
            (point,) = axes.plot([used], [rate], "o", markersize=5, color=colour, alpha=0.85)
            point.set_gid(f"point{index}")
            titles[f"point{index}"] = (
                f"{printable(row['cell'])}: {number_text(used, 0)} MiB,"
                f" {number_text(rate)} samples/s per device"
            )
            if link := href(log_of(row)):
                point.set_url(link)
        axes.set(xlabel=label, ylabel="samples/s per device")
        axes.set_xlim(0, 1.06 * axes.dataLim.x1)
        axes.set_ylim(0, 1.06 * axes.dataLim.y1)
        return titles

    legend = [{"label": f"{axis} {kind}", "mark": mark(i)} for i, kind in enumerate(kinds)]
    return {
        "svg": draw("memory", f"Samples per second of a device over {label}", 260, paint),
        "legend": legend if axis else [],
    }


def telling_axis(rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Find the first axis with a few values, by which points are coloured."""
    row_axes = axes_of(rows)
    for name in axis_names(rows):
        values = [axes.get(name, "–") for axes in row_axes]
        if 1 < len(set(values)) <= MOST_CURVES:
            return name, values
    return "", [""] * len(rows)
