"""Scaling in the report: one row a series, its device counts as columns, and its plots."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pandas import DataFrame

from node.printable import printable
from runner.report.groups import groups, places
from runner.report.links import href
from runner.report.plots import panels
from runner.report.svg import mark
from runner.tables.formatting import number_text, percent_text
from runner.tables.row import Row, log_of

_Series = Mapping[str, Any]
_RATE, _EFFICIENCY = "samples/s", "efficiency, %"


def scaling(table: Sequence[Row]) -> dict[str, Any] | None:
    """Return the scaling series, each with its rows by devices, and their plots."""
    series = _series(table)
    if not series:
        return None
    devices = sorted({row["figures"]["devices"] for entry in series for row in entry["rows"]})
    rate, efficiency = _plots(series)
    colours, _ = places(groups([entry["named"] for entry in series]))
    return {
        "devices": devices,
        "kinds": len({entry["kind"] for entry in series}) > 1,
        "series": [
            {
                "kind": entry["kind"],
                "label": entry["label"],
                "mark": mark(colours[index]),
                "cells": [_cell(entry, count) for count in devices],
            }
            for index, entry in enumerate(series)
        ],
        "panels": [
            panel
            for pair in zip(rate["panels"], efficiency["panels"], strict=True)
            for panel in pair
        ],
        "left_out": rate["left_out"],
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


def _plots(series: Sequence[_Series]) -> Iterator[dict[str, Any]]:
    """Draw rates and efficiencies over devices, each series with its ideal line."""
    frame, axes = _frame(series), [entry["named"] for entry in series]

    def settings(members: Sequence[int]) -> dict[str, Any]:
        ticks = sorted({row["figures"]["devices"] for at in members for row in series[at]["rows"]})
        of_all = {"xticks": ticks, "xticklabels": [str(tick) for tick in ticks]}
        # On both axes, so that ideal stays a straight line.
        far = max(ticks) > 8 * min(ticks)
        return {**of_all, "log": "xy"} if far else {**of_all, "xlim": (0, None), "ylim": (0, None)}

    def of_efficiency(members: Sequence[int]) -> dict[str, Any]:
        rows = frame[frame["member"].isin(members)]
        lowest = (
            rows[[_EFFICIENCY, "low"]].min().min()
        )  # lines, no bars: what differs shall be seen
        log = "x" if "log" in (of_both := settings(members)) else ""
        return {**of_both, "log": log, "ylim": (max(math.floor((lowest - 1) / 10) * 10, 0), None)}

    rate = ("rate_low", "rate_high")
    for y, interval, how in (
        (_RATE, rate, settings),
        (_EFFICIENCY, ("low", "high"), of_efficiency),
    ):
        yield panels(
            frame, "devices", y, "series", interval, axes=axes, settings=how, kind="marked"
        )


def _frame(series: Sequence[_Series]) -> DataFrame:
    """Return a row per cell of each series, and before them one per point of its ideal line."""
    rows: list[dict[str, Any]] = []
    for member, entry in enumerate(series):
        smallest = entry["rows"][0]["figures"]
        per_device = smallest["samples_per_s"] / smallest["devices"]
        for row in entry["rows"]:
            figures = row["figures"]
            rate, count = figures["samples_per_s"], figures["devices"]
            low, high = efficiency_interval(entry["kind"], row) or (math.nan, math.nan)
            point = {"member": member, "devices": count, "title": ""}
            rows.append({**point, _RATE: per_device * count, _EFFICIENCY: 100.0, "ideal": True})
            rows.append(
                {
                    **point,
                    **{_RATE: rate, _EFFICIENCY: row["scaling"][entry["kind"]]["efficiency"] * 100},
                    **{
                        f"rate_{end}": figures[f"samples_per_s_ci_{end}"] for end in ("low", "high")
                    },
                    **{"low": low, "high": high, "ideal": False},
                    "title": f"{entry['kind']}: {entry['label']}",
                }
            )
    frame = DataFrame(rows).assign(href="")
    frame["series"] = frame["member"].where(~frame["ideal"], -1 - frame["member"])
    numbers = [_RATE, "rate_low", "rate_high"]
    return frame.sort_values("ideal", ascending=False, kind="stable").astype(
        dict.fromkeys(numbers, float)
    )
