"""A table in a document's shape, and its four formats. Pure.

A *sheet* is one table: columns, lines and notes. A cell has a text for people and a value for
machines, and beside it what it was compared with. JSON, by `to_json` (schema: sheets.json):

    {"schema": 1, "shape": name, "hidden": what ran and the matrix no longer names, in a sentence,
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import aligned, filled
from runner.matrix.published import Printed
from runner.tables import text
from runner.tables.row import RowDifference

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Head:
    """A column: its key for machines, its header for people (with the unit)."""

    key: str
    header: str
    number: bool = True


@dataclass(frozen=True)
class SheetCell:
    """One cell of a sheet: its text, its value, and what it was compared with."""

    text: str
    value: Any = None
    difference: RowDifference | None = None
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
    """Write for terminals: a document's table is as wide as it is; notes fit `width`."""
    texts = []
    for sheet in sheets:
        rows = [[line.cells[head.key].text for head in sheet.heads] for line in sheet.lines]
        headers = [head.header for head in sheet.heads]
        table = aligned(rows, "simple", headers, _alignment(sheet))
        notes = (filled(note, width) for note in sheet.notes)
        texts.append("\n".join((sheet.title, "", table, "", *notes)).rstrip() + "\n")
    return "\n".join(texts) or "no cells\n"


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Write GitHub's Markdown: a bold title, the table, its notes as a list."""
    texts = []
    for sheet in sheets:
        rows = [[line.cells[head.key].text for head in sheet.heads] for line in sheet.lines]
        table = text.markdown([head.header for head in sheet.heads], rows, _alignment(sheet))
        notes = text.bulleted(sheet.notes)
        title = f"**{MarkdownText(sheet.title)}**"
        texts.append("\n".join((title, "", table, "", notes)).rstrip() + "\n")
    return "\n".join(texts) or "No cells.\n"


def _alignment(sheet: Sheet) -> text.Align:
    return ["right" if head.number else "left" for head in sheet.heads]


def to_frame(sheets: Sequence[Sheet]) -> DataFrame:
    """Make a DataFrame of all sheets, one row per line: the columns of the CSV, in their order."""
    import pandas as pd  # takes most of a second to import, and only CSV needs it

    keys = dict.fromkeys(head.key for sheet in sheets for head in sheet.heads)
    leading = ["table", "from", "cell", "status", "source"]
    frame = pd.DataFrame(
        [_fields(sheet, line) for sheet in sheets for line in sheet.lines], dtype=object
    )
    compared = [
        f"{key}_{suffix}" for key in keys for suffix in ("difference", "difference_percent")
    ]
    printed = [f"{key}_printed_{suffix}" for key in keys for suffix in ("difference", "percent")]
    there = [name for name in (*compared, *printed) if name in frame]
    return frame.reindex(columns=[*leading, *keys, *there])


def _fields(sheet: Sheet, line: Line) -> dict[str, Any]:
    fields: dict[str, Any] = {"table": sheet.title, "from": line.origin, "cell": line.cell}
    fields |= {"status": line.status, "source": line.source}
    fields |= {key: cell.value for key, cell in line.cells.items()}
    for key, cell in line.cells.items():
        if cell.difference:
            fields[f"{key}_difference"] = cell.difference["absolute"]
            fields[f"{key}_difference_percent"] = cell.difference["percent"]
        if cell.printed:
            fields[f"{key}_printed_difference"] = cell.printed.difference
            fields[f"{key}_printed_percent"] = cell.printed.percent
    return fields


def to_csv(sheets: Sequence[Sheet]) -> str:
    """Write CSV as the module's docstring says."""
    return text.csv_text(to_frame(sheets))


def to_json(sheets: Sequence[Sheet], shape: str, hidden: str = "") -> str:
    """Write JSON as the module's docstring says."""
    document = {
        "schema": 1,
        "shape": shape,
        "hidden": hidden,
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
    return json_text(document) + "\n"


def _line(line: Line) -> dict[str, Any]:
    return {
        "from": line.origin,
        "cell": line.cell,
        "status": line.status,
        "source": line.source,
        "values": {key: cell.value for key, cell in line.cells.items()},
        "differences": {
            key: {"difference": cell.difference["absolute"], "percent": cell.difference["percent"]}
            for key, cell in line.cells.items()
            if cell.difference
        },
        "printed": {
            key: {"difference": cell.printed.difference, "percent": cell.printed.percent}
            for key, cell in line.cells.items()
            if cell.printed
        },
    }
