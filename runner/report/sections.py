"""The report's tables as plain data for the template."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from node.printable import printable
from runner.figures.measured_cell import MeasuredCell
from runner.report.groups import labels
from runner.report.links import href
from runner.tables.campaign_table import head
from runner.tables.columns import COLUMNS, THRESHOLDS, Column
from runner.tables.formatting import MISSING, axis_text, change_text
from runner.tables.row import (
    PUBLISHABLE,
    Row,
    RowComparison,
    RowLoss,
    axis_names,
    finished,
    log_of,
    sizes_named,
)
from runner.terms.record import Record

_FIRST = ("cell", "samples_per_s", "status", "verdict")  # a narrow page shows little more
MOST_CHOICES = 30  # values of a setting by which rows are filtered, in a list
_SHOWN_BY = {  # axes without a column of their own
    "nodes_x_devices": ("nodes", "devices_per_node"),
    "batch": ("micro_batch_size", "global_batch_size"),
}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def _links(runs: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"repeat": repeat, "href": href(log)} for repeat, log in runs if href(log)]


def results(table: Sequence[Row], chosen: Sequence[Column]) -> dict[str, Any]:
    """Return the comparison table, except differences, which have a section of their own.

    What a comparison needs is to the left, as in a terminal. Each column has its `key` in an
    address, and whether rows are filtered by it; each cell the `value` that it is sorted and
    filtered by, None where its text is that.
    """
    columns = [column for column in chosen if not column.key.endswith("_difference")]
    leading = (*_FIRST, *(column.key for column in head(table)))
    first = {key: at for at, key in enumerate(dict.fromkeys(leading))}
    columns.sort(key=lambda column: first.get(column.key, len(first)))
    keys, by = _keys(columns), _by_which(table)
    table_cells = [
        [_cell(row, column, name) for column in columns]
        for row, name in zip(table, labels(table), strict=True)
    ]
    return {
        "columns": [
            {
                "key": key,
                "header": column.title,
                "title": column.one_line_title,
                "machine": column.key,
                "kind": column.kind,
                "filtered": column.key in by
                and _several_values([cells[at] for cells in table_cells]),
            }
            for at, (key, column) in enumerate(zip(keys, columns, strict=True))
        ],
        "rows": [
            {
                "name": row["cell"],
                "cells": cells,
                "finished": finished(row),
                "href": href(log_of(row)),
                "logs": _links((run["repeat"], run["log"]) for run in row["runs"]),
            }
            for row, cells in zip(table, table_cells, strict=True)
        ],
    }


def _cell(row: Row, column: Column, name: str) -> dict[str, Any]:
    text = name if column.key == "cell" else column.text(row)
    return {
        "key": column.key,
        "kind": column.kind,
        "text": text,
        "value": _value(row, column, text),
    }


def _keys(columns: Sequence[Column]) -> list[str]:
    """Return what the columns are called in an address: an axis by its own name, if no other is."""
    used = {column.key for column in columns}
    axis_keys = [column.key.removeprefix("axis_") for column in columns]
    return [
        name if name == column.key or name not in used else column.key
        for name, column in zip(axis_keys, columns, strict=True)
    ]


def _by_which(table: Sequence[Row]) -> set[str]:
    """Return the columns that rows are filtered by: how they ended, and what shows an axis."""
    axes = set(axis_names(table))
    shown_by = {**_SHOWN_BY, "parallel": tuple(sizes_named(table))}
    return {
        *("status", "verdict", "system"),
        *(f"axis_{name}" for name in axes),
        *(key for key, names in shown_by.items() if axes.intersection(names)),
    }


def _several_values(cells: Sequence[dict[str, Any]]) -> bool:
    values = {cell["text"] if cell["value"] is None else cell["value"] for cell in cells}
    return 1 < len(values) <= MOST_CHOICES


def _value(row: Row, column: Column, text: str) -> str | None:
    """Return the value of a cell in full precision; of a verdict its worst code."""
    if column.key == "verdict":
        return None if row["verdict"] == PUBLISHABLE else next(iter(row["verdict_reasons"]))
    if column.kind != "measure" or text == MISSING:
        return None
    cell_value = column.value(row)
    if isinstance(cell_value, int | float) and not isinstance(cell_value, bool):
        return f"{cell_value:.6g}"
    match = _NUMBER.search(text)
    return match[0].replace(",", "") if match else None


def against_baseline(table: Sequence[Row]) -> dict[str, Any] | None:
    """Return every row but the baseline's own: its value, the baseline's, the difference."""
    compared = [(row, row["comparison"]) for row in table if row["comparison"]]
    if not compared:
        return None
    _, comparison = compared[0]
    called = dict(zip((row["cell_id"] for row in table), labels(table), strict=True))
    bases = {row["cell_id"]: row for row in table}
    names = [n for n in THRESHOLDS if any(row["figures"][n] is not None for row in table)]
    return {
        "axis": comparison["axis"],
        "value": comparison["value"],
        "columns": [{"key": name, "title": COLUMNS[name].one_line_title} for name in names],
        "parity": any(
            comparison["loss"] and comparison["loss"]["same"] is not None
            for _, comparison in compared
        ),
        "rows": [
            {
                "cell": called[row["cell_id"]],
                "setting": axis_text(row, comparison["axis"]) or MISSING,
                "baseline": called[comparison["base"]] if comparison["base"] else MISSING,
                "note": printable(comparison["note"]),
                **_parity(comparison["loss"]),
                "compared": bool(comparison["differences"]),
                "href": href(log_of(row)),
                "base_href": href(log_of(bases[comparison["base"]]))
                if comparison["base"]
                else None,
                "values": [
                    _pair(row, comparison, bases.get(comparison["base"] or ""), name)
                    for name in names
                ],
            }
            for row, comparison in compared
            if comparison["note"] or not comparison["is_baseline"]
        ],
    }


def _parity(loss: RowLoss | None) -> dict[str, Any]:
    """Return whether the cell learns what its baseline does: a fast wrong run is not a result."""
    if loss is None or loss["same"] is None:
        return {"loss": MISSING, "diverges": False, "parity": loss["words"] if loss else ""}
    told = "same" if loss["same"] else f"diverges at {loss['at']}"
    return {"loss": told, "diverges": not loss["same"], "parity": loss["words"]}


def _pair(row: Row, comparison: RowComparison, base: Row | None, name: str) -> dict[str, str]:
    difference, verdict = comparison["differences"].get(name), ""
    # A difference is coloured where it is beyond its noise; the peak of a device has none.
    column = COLUMNS[name]
    if difference and (difference["real"] if column.by_runs else difference["percent"]):
        verdict = "good" if difference["percent"] * column.better > 0 else "bad"
    return {
        "ours": column.number(row) if finished(row) else MISSING,
        "theirs": column.number(base) if base and finished(base) else MISSING,
        "difference": change_text(difference),
        "verdict": verdict,
    }


def problems(cells: Sequence[MeasuredCell]) -> list[dict[str, Any]]:
    """Return every run that did not end ok, cell by cell, with the log's own last words.

    Repeats of a cell that ended in the same way, with the same words, stand together.
    """
    entries: list[dict[str, Any]] = []
    for cell in cells:
        alike: dict[tuple[str, str, str], list[Record]] = {}
        for run in cell.records:
            if run.status != "ok":
                alike.setdefault((run.status, run.reason, run.last_words), []).append(run)
        for (status, reason, last_words), runs in alike.items():
            repeats = ", ".join(str(run.repeat) for run in runs) if len(cell.records) > 1 else ""
            entries.append(
                {
                    "cell": printable(cell.record.cell),
                    "status": status,
                    "reason": printable(reason) or "no reason was recorded",
                    "repeats": repeats,
                    "last_words": "\n".join(filter(None, map(printable, last_words.splitlines()))),
                    "logs": _links((run.repeat, run.log) for run in runs),
                }
            )
    return entries
