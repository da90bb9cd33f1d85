"""The report's tables as plain data for the template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from runner.lines import printable
from runner.records import Record
from runner.report.plots import scaling_svg
from runner.report.svg import mark
from runner.tables.columns import measure_text, places
from runner.tables.layout import Layout
from runner.tables.machine import machine_value
from runner.tables.row import COMPARED, Difference, Row
from runner.tables.text import (
    MISSING,
    axis_text,
    difference_text,
    number_text,
    percent_text,
)

_HEADLINE = frozenset({"samples_per_s", "samples_per_s_spread_percent"})
_HIGHER_IS_BETTER = frozenset({"samples_per_s"})
_TITLES = {
    "samples_per_s": "samples/s",
    "memory_allocated_mib": "allocated MiB",
    "memory_used_mib": "used MiB",
}


def href(path: str) -> str | None:
    """`path` as a relative link, or None: an absolute path would name somebody's machine."""
    return quote(path, safe="/._-~") if path and not path.startswith(("/", "\\", "~")) else None


def _links(runs: Iterable[Record]) -> list[dict[str, Any]]:
    return [{"repeat": run.repeat, "href": href(run.log)} for run in runs if href(run.log)]


def results(table: Sequence[Row], chosen: Layout) -> dict[str, Any]:
    """The comparison table, but for differences, which have a section of their own."""
    columns = [column for column in chosen.columns if not column.key.endswith("_difference")]
    # Names and the headline number first: a phone shows little more without scrolling.
    columns.sort(key=lambda column: 0 if column.kind == "name" else column.key not in _HEADLINE)
    return {
        "columns": columns,
        "rows": [
            {
                "cells": [
                    {"key": column.key, "kind": column.kind, "text": column.text(row)}
                    for column in columns
                ],
                "finished": row.finished,
                "logs": _links(row.records),
            }
            for row in table
        ],
    }


def against_baseline(table: Sequence[Row]) -> dict[str, Any] | None:
    """Every row but the baseline's own: its value, the baseline's, the difference."""
    compared = [(row, row.comparison) for row in table if row.comparison]
    if not compared:
        return None
    _, first = compared[0]
    names = [n for n in COMPARED if any(machine_value(row, n) is not None for row in table)]
    return {
        "axis": first.axis,
        "value": first.value,
        "columns": [{"key": name, "title": _TITLES[name]} for name in names],
        "rows": [
            {
                "cell": printable(row.cell),
                "setting": axis_text(row, found.axis) or MISSING,
                "baseline": printable(found.cell) if found.cell else MISSING,
                "note": printable(found.note),
                "compared": bool(found.differences),
                "values": [
                    _pair(row, found.base, name, found.differences.get(name)) for name in names
                ],
            }
            for row, found in compared
            if found.note or not found.is_baseline
        ],
    }


def _pair(row: Row, base: Row | None, name: str, difference: Difference | None) -> dict[str, str]:
    verdict = ""
    if difference and abs(difference.percent) >= 0.05:
        verdict = "good" if (difference.percent > 0) == (name in _HIGHER_IS_BETTER) else "bad"
    return {
        "ours": measure_text(row, name) if row.finished else MISSING,
        "theirs": measure_text(base, name) if base and base.finished else MISSING,
        "difference": difference_text(difference, places(name, machine_value(row, name) or 0)),
        "verdict": verdict,
    }


def scaling(table: Sequence[Row]) -> dict[str, Any] | None:
    """The scaling series, each with its rows by devices, and their plot."""
    series = _series(table)
    if not series:
        return None
    return {
        "series": [
            {
                "kind": one["kind"],
                "label": one["label"],
                "mark": mark(index),
                "rows": [
                    {
                        "devices": row.record.world_size,
                        "cell": printable(row.cell),
                        "rate": number_text(row.samples_per_s),
                        "per_device": number_text(row.samples_per_s_per_device),
                        "efficiency": percent_text(row.scaling[one["kind"]].efficiency * 100),
                    }
                    for row in one["rows"]
                ],
            }
            for index, one in enumerate(series)
        ],
        "svg": scaling_svg(series),
    }


def _series(table: Sequence[Row]) -> list[dict[str, Any]]:
    """The scaling series: kind, label (what tells it from the others) and rows by devices."""
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Row]] = {}
    for row in table:
        for kind, scaled in row.scaling.items():
            series.setdefault((kind, scaled.series), []).append(row)
    result = []
    for (kind, key), rows in series.items():
        others = [dict(other) for k, other in series if k == kind]
        differs = {n: v for n, v in key if any(other.get(n) != v for other in others)}
        # `batch` differs in every strong or weak series of its own; name it when nothing else does.
        named = {n: v for n, v in differs.items() if n != "batch"} or differs
        batch = {"strong": "global batch", "weak": "batch per device"}[kind]
        label = ", ".join(f"{batch if n == 'batch' else n} {v}" for n, v in named.items())
        rows = sorted(rows, key=lambda row: (row.record.world_size, row.record.nodes))
        result.append({"kind": kind, "label": label or "all cells", "rows": rows})
    return result


def problems(table: Sequence[Row]) -> list[dict[str, Any]]:
    """Every run that did not end ok, cell by cell, with the log's own last words.

    Repeats of a cell that ended in the same way, with the same words, stand together.
    """
    found: list[dict[str, Any]] = []
    for row in table:
        alike: dict[tuple[str, str, str], list[Record]] = {}
        for run in row.records:
            if run.status != "ok":
                alike.setdefault((run.status, run.reason, run.last_words), []).append(run)
        for (status, reason, last_words), runs in alike.items():
            repeats = ", ".join(str(run.repeat) for run in runs) if len(row.records) > 1 else ""
            found.append(
                {
                    "cell": printable(row.cell),
                    "status": status,
                    "reason": printable(reason) or "no reason was recorded",
                    "repeats": repeats,
                    "last_words": "\n".join(filter(None, map(printable, last_words.splitlines()))),
                    "logs": _links(runs),
                }
            )
    return found
