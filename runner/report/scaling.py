"""Scaling in the report: one row a series, its device counts as columns, and its plots."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes

from node.printable import printable
from runner.report.groups import MOST_PANELS, colours, groups
from runner.report.links import href
from runner.report.svg import FAINT, PANEL, WIDTH, draw, line_style, mark
from runner.tables.formatting import number_text, percent_text
from runner.tables.row import Row, log_of

_Series = Mapping[str, Any]


def scaling(table: Sequence[Row]) -> dict[str, Any] | None:
    """Return the scaling series, each with its rows by devices, and their plots."""
    series = _series(table)
    if not series:
        return None
    devices = sorted({row["figures"]["devices"] for entry in series for row in entry["rows"]})
    grouped = groups([entry["named"] for entry in series])
    by_name = colours(grouped)
    places = {
        member: by_name[name] if by_name else index
        for group in grouped
        for index, (member, name) in enumerate(zip(group.members, group.names, strict=True))
    }
    return {
        "devices": devices,
        "kinds": len({entry["kind"] for entry in series}) > 1,
        "series": [
            {
                "kind": entry["kind"],
                "label": entry["label"],
                "mark": mark(places[index]),
                "cells": [_cell(entry, count) for count in devices],
            }
            for index, entry in enumerate(series)
        ],
        "panels": [
            {
                "title": group.label,
                "svgs": [
                    _svg(f"scaling-{number}", _RATE, members, len(grouped) > 1),
                    _svg(f"efficiency-{number}", _EFFICIENCY, members, len(grouped) > 1),
                ],
            }
            for number, group in enumerate(grouped[:MOST_PANELS])
            for members in [[(series[member], places[member]) for member in group.members]]
        ],
        "left_out": sum(len(group.members) for group in grouped[MOST_PANELS:]),
    }


def _cell(entry: _Series, devices: int) -> dict[str, Any] | None:
    """Return a series at one device count; None where it has no such cell."""
    row = next((row for row in entry["rows"] if row["figures"]["devices"] == devices), None)
    if row is None:
        return None
    efficiency = row["scaling"][entry["kind"]]["efficiency"] * 100
    return {
        "cell": printable(row["cell"]),
        "rate": number_text(row["figures"]["samples_per_s"]),
        "per_device": number_text(row["figures"]["samples_per_s_per_device"]),
        "efficiency": percent_text(efficiency) + _half(entry, row),
        "href": href(log_of(row)),
    }


def _half(entry: _Series, row: Row) -> str:
    """Write the larger half of the efficiency's interval, of a cell that has one."""
    interval = efficiency_interval(entry["kind"], row)
    if interval is None:
        return ""
    efficiency = row["scaling"][entry["kind"]]["efficiency"] * 100
    return f" ± {max(efficiency - interval[0], interval[1] - efficiency):.1f}"


def efficiency_interval(kind: str, row: Row) -> tuple[float, float] | None:
    """Return the 95 % interval of a cell's efficiency in percent; None of one without."""
    low, high = row["scaling"][kind]["low"], row["scaling"][kind]["high"]
    return None if low is None or high is None else (100 * low, 100 * high)


def _series(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the scaling series: kind, label (what tells it from the others) and rows by
    devices.
    """
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Row]] = {}
    for row in table:
        for kind, scaled in row["scaling"].items():
            series.setdefault((kind, tuple(scaled["series"].items())), []).append(row)
    result: list[dict[str, Any]] = []
    for (kind, key), rows in series.items():
        rivals = [dict(fields) for k, fields in series if k == kind]
        differs = {n: v for n, v in key if any(fields.get(n) != v for fields in rivals)}
        # `batch` differs in every strong or weak series of its own; name it when nothing else does.
        differing = {n: v for n, v in differs.items() if n != "batch"} or differs
        batch = {"strong": "global batch", "weak": "batch per device"}[kind]
        labels: dict[str, str] = {batch if n == "batch" else n: v for n, v in differing.items()}
        result.append(
            {
                "kind": kind,
                "label": ", ".join(f"{n} {v}" for n, v in labels.items()) or "all cells",
                "named": {"scaling": kind, **labels},
                "rows": sorted(
                    rows, key=lambda row: (row["figures"]["devices"], row["figures"]["nodes"])
                ),
            }
        )
    return result


@dataclass(frozen=True)
class _Quantity:
    """What is drawn over devices: of a cell its value and interval, and of a series the ideal."""

    label: str
    of: Callable[[_Series, Row], float]
    interval: Callable[[_Series, Row], tuple[float, float] | None]
    ideal: Callable[[_Series, int], float]


def _ideal_rate(entry: _Series, devices: int) -> float:
    smallest = entry["rows"][0]
    return float(smallest["figures"]["samples_per_s"] / smallest["figures"]["devices"] * devices)


def _rate_interval(entry: _Series, row: Row) -> tuple[float, float] | None:
    low, high = (row["figures"][f"samples_per_s_ci_{end}"] for end in ("low", "high"))
    return None if low is None or high is None else (low, high)


_RATE = _Quantity(
    "samples/s",
    lambda entry, row: float(row["figures"]["samples_per_s"] or 0.0),
    _rate_interval,
    _ideal_rate,
)
_EFFICIENCY = _Quantity(
    "efficiency, %",
    lambda entry, row: row["scaling"][entry["kind"]]["efficiency"] * 100,
    lambda entry, row: efficiency_interval(entry["kind"], row),
    lambda entry, devices: 100.0,
)


def _svg(name: str, drawn: _Quantity, series: Sequence[tuple[_Series, int]], small: bool) -> Markup:
    """Draw a quantity over devices, one line a series, with its ideal line dotted."""

    def paint(axes: Axes) -> dict[str, str]:
        titles, ticks = {}, set()
        for index, (entry, style_index) in enumerate(series):
            devices = [row["figures"]["devices"] for row in entry["rows"]]
            ticks |= set(devices)
            ideal = [drawn.ideal(entry, count) for count in devices]
            axes.plot(devices, ideal, color=FAINT, linewidth=1, linestyle=(0, (1, 2)))
            values = [drawn.of(entry, row) for row in entry["rows"]]
            style = line_style(style_index)
            (line,) = axes.plot(devices, values, marker="o", markersize=4, **style)
            line.set_gid(f"line{index}")
            titles[f"line{index}"] = f"{entry['kind']}: {entry['label']}"
            for row, value in zip(entry["rows"], values, strict=True):
                if interval := drawn.interval(entry, row):
                    below, above = (max(value - interval[0], 0), max(interval[1] - value, 0))
                    bar = {"ecolor": style["color"], "elinewidth": 1.2, "capsize": 3}
                    axes.errorbar(
                        row["figures"]["devices"], value, [[below], [above]], fmt="none", **bar
                    )
        far = max(ticks) > 8 * min(ticks)
        if far:
            axes.set_xscale("log", base=2)
        else:
            axes.set_xlim(left=0)
        if far and drawn is _RATE:  # on both axes, so that ideal stays a straight line
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter("{x:.4g}")
        elif drawn is _RATE:
            axes.set_ylim(bottom=0)
        else:  # lines, no bars: what differs shall be seen
            axes.set_ylim(max(math.floor(axes.get_ylim()[0] / 10) * 10, 0))
        axes.set_xticks(sorted(ticks), labels=[str(tick) for tick in sorted(ticks)])
        axes.minorticks_off()
        axes.set(xlabel="devices", ylabel=drawn.label)
        return titles

    label = f"{drawn.label.split(',')[0].capitalize()} over the number of devices"
    return draw(name, label, 190 if small else 260, paint, PANEL if small else WIDTH)
