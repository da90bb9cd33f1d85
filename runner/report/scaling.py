"""Scaling in the report: one row a series, its device counts as columns, and its plots."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes

from node.printable import printable
from runner.report.groups import MOST_PANELS, colours, groups
from runner.report.links import href
from runner.report.svg import FAINT, PANEL, WIDTH, draw, line_style, mark
from runner.tables.formatting import number_text, percent_text
from runner.tables.row import Row

_Series = Mapping[str, Any]


def scaling(table: Sequence[Row]) -> dict[str, Any] | None:
    """Return the scaling series, each with its rows by devices, and their plots."""
    series = _series(table)
    if not series:
        return None
    devices = sorted({row.record.world_size for one in series for row in one["rows"]})
    grouped = groups([one["named"] for one in series])
    by_name = colours(grouped)
    places = {
        member: by_name[name] if by_name else place
        for group in grouped
        for place, (member, name) in enumerate(zip(group.members, group.names, strict=True))
    }
    return {
        "devices": devices,
        "kinds": len({one["kind"] for one in series}) > 1,
        "series": [
            {
                "kind": one["kind"],
                "label": one["label"],
                "mark": mark(places[index]),
                "cells": [_cell(one, count) for count in devices],
            }
            for index, one in enumerate(series)
        ],
        "panels": [
            {
                "title": group.label,
                "svg": _svg(
                    number, [series[m] for m in group.members], places, group.members, grouped
                ),
            }
            for number, group in enumerate(grouped[:MOST_PANELS])
        ],
        "left_out": sum(len(group.members) for group in grouped[MOST_PANELS:]),
    }


def _cell(one: _Series, devices: int) -> dict[str, Any] | None:
    """Return a series at one device count; None where it has no such cell."""
    row = next((row for row in one["rows"] if row.record.world_size == devices), None)
    return row and {
        "cell": printable(row.cell),
        "rate": number_text(row.samples_per_s),
        "per_device": number_text(row.samples_per_s_per_device),
        "efficiency": percent_text(row.scaling[one["kind"]].efficiency * 100),
        "href": href(row.record.log),
    }


def _series(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the scaling series: kind, label (what tells it from the others) and rows by
    devices.
    """
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Row]] = {}
    for row in table:
        for kind, scaled in row.scaling.items():
            series.setdefault((kind, scaled.series), []).append(row)
    result: list[dict[str, Any]] = []
    for (kind, key), rows in series.items():
        others = [dict(other) for k, other in series if k == kind]
        differs = {n: v for n, v in key if any(other.get(n) != v for other in others)}
        # `batch` differs in every strong or weak series of its own; name it when nothing else does.
        named = {n: v for n, v in differs.items() if n != "batch"} or differs
        batch = {"strong": "global batch", "weak": "batch per device"}[kind]
        labels: dict[str, str] = {batch if n == "batch" else n: v for n, v in named.items()}
        result.append(
            {
                "kind": kind,
                "label": ", ".join(f"{n} {v}" for n, v in labels.items()) or "all cells",
                "named": {"scaling": kind, **labels},
                "rows": sorted(rows, key=lambda row: (row.record.world_size, row.record.nodes)),
            }
        )
    return result


def _svg(
    number: int,
    series: Sequence[_Series],
    places: Mapping[int, int],
    members: Sequence[int],
    grouped: Sequence[object],
) -> Markup:
    """Draw samples/s over devices, one line a series, with its ideal line dotted."""
    few = len(grouped) > 1

    def paint(axes: Axes) -> dict[str, str]:
        titles, ticks = {}, set()
        for index, (one, member) in enumerate(zip(series, members, strict=True)):
            points = [(row.record.world_size, row.samples_per_s) for row in one["rows"]]
            devices, rates = zip(*points, strict=True)
            ticks |= set(devices)
            ideal = [rates[0] / devices[0] * count for count in devices]
            axes.plot(devices, ideal, color=FAINT, linewidth=1, linestyle=(0, (1, 2)))
            style = line_style(places[member])
            (line,) = axes.plot(devices, rates, marker="o", markersize=4, **style)
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

    label = "Samples per second over the number of devices"
    return draw(f"scaling-{number}", label, 190 if few else 260, paint, PANEL if few else WIDTH)
