"""A table in a document's shape, and its four formats. Pure.

A *sheet* is one table: columns, lines and notes. A cell has a text for people and a value for
machines, and beside it what it was compared with. JSON, by `to_json` (docs/schemas/sheets.json):

    {"schema": 1, "shape": name,
     "tables": [{"title",
                 "columns": [{"key", "header"}],
                 "rows": [{"from": "ours" | "published", "cell": name or null, "status",
                           "source": document or null,
                           "values": {column key: number, string or null},
                           "differences": {column key: {"difference", "percent"}},
                           "printed": {column key: {"difference", "percent"}}}],
                 "notes": [text]}]}

CSV has one line a row: `table`, `from`, `cell`, `status`, `source`, then every column by its key,
and `<key>_difference`, `<key>_difference_percent`, `<key>_printed_difference`,
`<key>_printed_percent` for what is compared.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from runner.base.grid import aligned, filled
from runner.matrix.published import Printed
from runner.tables.markdown import escaped
from runner.tables.row import Difference


@dataclass(frozen=True)
class Head:
    """A column: its key for machines, its header for people (with the unit)."""

    key: str
    header: str
    number: bool = True


@dataclass(frozen=True)
class SheetCell:
    """What stands in a place: its text, its value, and what it was compared with."""

    text: str
    value: Any = None
    difference: Difference | None = None
    printed: Printed | None = None


@dataclass(frozen=True)
class Line:
    """A row of a sheet; `origin` says whether we measured it or a document printed it."""

    origin: Literal["ours", "published"]
    status: str
    cells: Mapping[str, SheetCell]
    cell: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Sheet:
    """One table in a document's shape."""

    title: str
    heads: tuple[Head, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = field(default=())


def to_text(sheets: Sequence[Sheet], width: int) -> str:
    """Write for terminals: a document's table is as wide as it is and not cut; notes fit
    `width`.
    """
    fitting = (
        replace(sheet, notes=tuple(filled(note, width) for note in sheet.notes)) for sheet in sheets
    )
    return "\n".join(_people(sheet, "simple", str, "") for sheet in fitting) or "no cells\n"


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Write GitHub's Markdown: a bold title, the table, its notes as a list."""
    return "\n".join(_people(sheet, "pipe", escaped, "- ") for sheet in sheets) or "No cells.\n"


def _people(sheet: Sheet, form: Literal["simple", "pipe"], clean: Any, bullet: str) -> str:
    title = f"**{clean(sheet.title)}**" if bullet else sheet.title
    table = aligned(
        [[clean(line.cells[head.key].text) for head in sheet.heads] for line in sheet.lines],
        form,
        [clean(head.header) for head in sheet.heads],
        ["right" if head.number else "left" for head in sheet.heads],
    )
    notes = [f"{bullet}{clean(note)}" for note in sheet.notes]
    return "\n".join(part for part in (title, "", table, "", *notes)).rstrip() + "\n"


def to_csv(sheets: Sequence[Sheet]) -> str:
    """Write CSV as the module's docstring says; in full precision, an empty field is
    nothing known.
    """
    keys = dict.fromkeys(head.key for sheet in sheets for head in sheet.heads)
    lines = [(sheet, line) for sheet in sheets for line in sheet.lines]

    def some(part: str) -> list[str]:
        return [key for key in keys if any(getattr(n.cells.get(key), part, None) for _, n in lines)]

    compared, printed = some("difference"), some("printed")
    header = ["table", "from", "cell", "status", "source", *keys]
    header += [f"{key}_{part}" for key in compared for part in ("difference", "difference_percent")]
    header += [f"{k}_printed_{part}" for k in printed for part in ("difference", "percent")]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    for sheet, line in lines:
        fields = [sheet.title, line.origin, line.cell, line.status, line.source]
        fields += [getattr(line.cells.get(key), "value", None) for key in keys]
        for key in compared:
            change = getattr(line.cells.get(key), "difference", None)
            fields += [getattr(change, "absolute", None), getattr(change, "percent", None)]
        for key in printed:
            difference = getattr(line.cells.get(key), "printed", None)
            fields += [
                getattr(difference, "difference", None),
                getattr(difference, "percent", None),
            ]
        writer.writerow(["" if value is None else value for value in fields])
    return stream.getvalue()


def to_json(sheets: Sequence[Sheet], shape: str) -> str:
    """Write JSON as the module's docstring says."""
    document = {
        "schema": 1,
        "shape": shape,
        "tables": [
            {
                "title": sheet.title,
                "columns": [{"key": head.key, "header": head.header} for head in sheet.heads],
                "rows": [_line(line) for line in sheet.lines],
                "notes": list(sheet.notes),
            }
            for sheet in sheets
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _line(line: Line) -> dict[str, Any]:
    return {
        "from": line.origin,
        "cell": line.cell,
        "status": line.status,
        "source": line.source,
        "values": {key: cell.value for key, cell in line.cells.items()},
        "differences": {
            key: {"difference": cell.difference.absolute, "percent": cell.difference.percent}
            for key, cell in line.cells.items()
            if cell.difference
        },
        "printed": {
            key: {"difference": cell.printed.difference, "percent": cell.printed.percent}
            for key, cell in line.cells.items()
            if cell.printed
        },
    }
