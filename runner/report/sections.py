"""The report's tables as plain data for the template."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from node.printable import printable
from runner.figures.cell_statistics import runs_that_count
from runner.figures.parity import Parity
from runner.report.cell_labels import labels
from runner.report.links import href
from runner.tables.catalogue.column import Column
from runner.tables.catalogue.every_column import COLUMNS, COMPARED, value
from runner.tables.formatting import MISSING, axis_text, change_text
from runner.tables.row import Difference, Row, axis_names, sizes_named
from runner.tables.selection import Selection
from runner.terms.record import Record

_FIRST = ("cell", "samples_per_s", "status", "verdict")  # a narrow page shows little more
MOST_CHOICES = 30  # values of a setting by which rows are filtered, in a list
_SHOWN_BY = {  # axes without a column of their own
    "nodes_x_devices": ("nodes", "devices_per_node"),
    "batch": ("micro_batch_size", "global_batch_size"),
}
_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def _links(runs: Iterable[Record]) -> list[dict[str, Any]]:
    return [{"repeat": run.repeat, "href": href(run.log)} for run in runs if href(run.log)]


def _from(row: Row) -> str | None:
    """Return the log that a row's numbers come from: of several repeats the first that counts."""
    _, runs = runs_that_count(row.records)
    return href((runs[0] if runs else row.record).log)


def results(table: Sequence[Row], chosen: Selection) -> dict[str, Any]:
    """Return the comparison table, except differences, which have a section of their own.

    What tables give up last is to the left. Each column has its `key` in an address, and whether
    rows are filtered by it; each cell the `value` that it is sorted and filtered by, None where its
    text is that.
    """
    columns = [column for column in chosen.columns if not column.key.endswith("_difference")]
    first = {key: at for at, key in enumerate(_FIRST)}
    columns.sort(key=lambda column: (first.get(column.key, len(first)), -(column.worth or 0)))
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
                "name": row.cell,
                "cells": cells,
                "finished": row.finished,
                "href": _from(row),
                "logs": _links(row.records),
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
        return None if row.publishable else next(iter(row.verdict))
    if column.kind != "measure" or text == MISSING:
        return None
    try:
        cell_value = value(row, column.key)
    except KeyError:  # a column for people alone
        cell_value = None
    if isinstance(cell_value, int | float) and not isinstance(cell_value, bool):
        return f"{cell_value:.6g}"
    match = _NUMBER.search(text)
    return match[0].replace(",", "") if match else None


def against_baseline(table: Sequence[Row]) -> dict[str, Any] | None:
    """Return every row but the baseline's own: its value, the baseline's, the difference."""
    compared = [(row, row.comparison) for row in table if row.comparison]
    if not compared:
        return None
    _, comparison = compared[0]
    called = dict(zip((row.record.cell_id for row in table), labels(table), strict=True))
    names = [n for n in COMPARED if any(value(row, n) is not None for row in table)]
    return {
        "axis": comparison.axis,
        "value": comparison.value,
        "columns": [{"key": name, "title": COLUMNS[name].one_line_title} for name in names],
        "parity": any(
            comparison.parity and comparison.parity.same is not None for _, comparison in compared
        ),
        "rows": [
            {
                "cell": called[row.record.cell_id],
                "setting": axis_text(row, comparison.axis) or MISSING,
                "baseline": called[comparison.base.record.cell_id] if comparison.base else MISSING,
                "note": printable(comparison.note),
                **_parity(comparison.parity),
                "compared": bool(comparison.differences),
                "href": _from(row),
                "base_href": _from(comparison.base) if comparison.base else None,
                "values": [
                    _pair(row, comparison.base, name, comparison.differences.get(name))
                    for name in names
                ],
            }
            for row, comparison in compared
            if comparison.note or not comparison.is_baseline
        ],
    }


def _parity(parity: Parity | None) -> dict[str, Any]:
    """Return whether the cell learns what its baseline does: a fast wrong run is not a result."""
    if parity is None or parity.same is None:
        return {"loss": MISSING, "diverges": False, "parity": parity.words if parity else ""}
    loss = "same" if parity.same else f"diverges at {parity.at}"
    return {"loss": loss, "diverges": not parity.same, "parity": parity.words}


def _pair(row: Row, base: Row | None, name: str, difference: Difference | None) -> dict[str, str]:
    verdict = ""
    # A difference is coloured where it is beyond its noise; the peak of a device has none.
    column = COLUMNS[name]
    if difference and (difference.real if column.by_runs else difference.percent):
        verdict = "good" if difference.percent * column.better > 0 else "bad"
    return {
        "ours": column.number(row) if row.finished else MISSING,
        "theirs": column.number(base) if base and base.finished else MISSING,
        "difference": change_text(difference),
        "verdict": verdict,
    }


def problems(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Return every run that did not end ok, cell by cell, with the log's own last words.

    Repeats of a cell that ended in the same way, with the same words, stand together.
    """
    entries: list[dict[str, Any]] = []
    for row in table:
        alike: dict[tuple[str, str, str], list[Record]] = {}
        for run in row.records:
            if run.status != "ok":
                alike.setdefault((run.status, run.reason, run.last_words), []).append(run)
        for (status, reason, last_words), runs in alike.items():
            repeats = ", ".join(str(run.repeat) for run in runs) if len(row.records) > 1 else ""
            entries.append(
                {
                    "cell": printable(row.cell),
                    "status": status,
                    "reason": printable(reason) or "no reason was recorded",
                    "repeats": repeats,
                    "last_words": "\n".join(filter(None, map(printable, last_words.splitlines()))),
                    "logs": _links(runs),
                }
            )
    return entries
