"""samples/s over two axes, as tables whose cells are coloured. Pure.

Nothing is averaged: of each setting of the other axes there is a table of its own.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from node.printable import printable
from runner.report.groups import MOST_PANELS, axes_of
from runner.report.links import href
from runner.tables.formatting import number_text
from runner.tables.row import Row

MOST_PAIRS = 6  # of axes: those with the most values
DEEPEST = 45  # percent of colour behind a number; more, and it would be hard to read


def heatmaps(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Make the tables of each pair of axes, those of the two with the most values first.

    None of a pair of which no table has cells to compare along both; none without a number.
    """
    cells = _axes(table)
    rates = [_rate(row) for row in table]
    measured = [rate for rate in rates if rate]
    if not measured:
        return []
    names = dict.fromkeys(name for cell_axes in cells for name in cell_axes)
    values = {
        name: _ordered(cell_axes[name] for cell_axes in cells if name in cell_axes)
        for name in names
    }
    count = {name: len(axis_values) for name, axis_values in values.items() if len(axis_values) > 1}
    varying = sorted(count, key=lambda name: -count[name])
    pairs = sorted(combinations(varying, 2), key=lambda pair: -count[pair[0]] * count[pair[1]])
    drawn = (_pair(table, cells, values, pair, (min(measured), max(measured))) for pair in pairs)
    return [heatmap for heatmap in drawn if heatmap][:MOST_PAIRS]


def _rate(row: Row) -> float | None:
    return row.samples_per_s if row.finished else None


def _axes(table: Sequence[Row]) -> list[dict[str, str]]:
    """Return each row's axes; its campaign is one, where there are several."""
    several = len({row.record.campaign for row in table}) > 1
    campaigns = [{"campaign": printable(row.record.campaign)} if several else {} for row in table]
    return [{**axes, **campaign} for campaign, axes in zip(campaigns, axes_of(table), strict=True)]


def _ordered(values: Any) -> list[str]:
    """Order values: numbers by size, words as they come."""
    distinct = list(dict.fromkeys(values))
    try:
        return sorted(distinct, key=float)
    except ValueError:
        return distinct


def _pair(
    table: Sequence[Row],
    cells: Sequence[Mapping[str, str]],
    values: Mapping[str, Sequence[str]],
    pair: tuple[str, str],
    ends: tuple[float, float],
) -> dict[str, Any] | None:
    down, across = pair
    other_names = [name for name in values if name not in pair and len(values[name]) > 1]
    settings: dict[tuple[tuple[str, str], ...], dict[tuple[str, str], list[Row]]] = {}
    left_out = 0
    for row, axes in zip(table, cells, strict=True):
        if down not in axes or across not in axes:
            left_out += 1
            continue
        setting = tuple((name, axes[name]) for name in other_names if name in axes)
        places = settings.setdefault(setting, {})
        places.setdefault((axes[down], axes[across]), []).append(row)
    grids = [_grid(setting, of, pair, values, ends) for setting, of in settings.items()]
    if not any(_crossed(grid) for grid in grids):
        return None
    return {
        "down": down,
        "across": across,
        "least": number_text(ends[0]),
        "most": number_text(ends[1]),
        "grids": grids[:MOST_PANELS],
        "more": len(grids[MOST_PANELS:]),
        "left_out": left_out,
    }


def _crossed(grid: Mapping[str, Any]) -> bool:
    """Say whether some line and some column have several cells each, not a diagonal alone."""
    there = sum(bool(cells) for row in grid["rows"] for cells in row["cells"])
    return min(len(grid["rows"]), len(grid["columns"])) > 1 and there > max(
        len(grid["rows"]), len(grid["columns"])
    )


def _grid(
    setting: tuple[tuple[str, str], ...],
    places: Mapping[tuple[str, str], Sequence[Row]],
    pair: tuple[str, str],
    values: Mapping[str, Sequence[str]],
    ends: tuple[float, float],
) -> dict[str, Any]:
    down, across = (
        [value for value in values[name] if any(corner[side] == value for corner in places)]
        for side, name in enumerate(pair)
    )
    return {
        "title": ", ".join(f"{name} {value}" for name, value in setting),
        "columns": across,
        "rows": [
            {
                "value": row_value,
                "cells": [
                    [_cell(row, ends) for row in places.get((row_value, column_value), ())]
                    for column_value in across
                ],
            }
            for row_value in down
        ],
    }


def _cell(row: Row, ends: tuple[float, float]) -> dict[str, Any]:
    """Return a number and the share of colour behind it, by its logarithm; or how it ended."""
    rate = _rate(row)
    return {
        "text": row.status if rate is None else number_text(rate),
        "heat": None if rate is None else round(share(rate, ends) * DEEPEST),
        "title": printable(row.cell),
        "href": None if rate is None else href(row.record.log),
    }


def share(rate: float, ends: tuple[float, float]) -> float:
    """Return where a rate is between the least and the most, 0 to 1, on a logarithmic scale."""
    least, most = ends
    span = math.log(most) - math.log(least)  # a quotient may be more than a float holds
    return (math.log(rate) - math.log(least)) / span if span > 0 else 1.0
