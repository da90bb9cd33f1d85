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
from dataclasses import dataclass
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

    @property
    def as_json(self) -> dict[str, Any]:
        """What JSON has of it."""
        cells = self.cells.items()
        return {
            "from": self.origin,
            "cell": self.cell,
            "status": self.status,
            "source": self.source,
            "values": {key: cell.value for key, cell in cells},
            "differences": {
                key: {"difference": change["absolute"], "percent": change["percent"]}
                for key, cell in cells
                if (change := cell.difference)
            },
            "printed": {key: vars(cell.printed) for key, cell in cells if cell.printed},
        }


@dataclass(frozen=True)
class Sheet:
    """One table in a document's shape."""

    title: str
    heads: Sequence[Head]
    lines: Sequence[Line]
    notes: Sequence[str] = ()


def to_text(sheets: Sequence[Sheet], width: int) -> str:
    """Write for terminals: a document's table is as wide as it is; notes fit `width`."""
    texts = []
    for sheet in sheets:
        table = aligned(
            _texts(sheet), "simple", [head.header for head in sheet.heads], _align(sheet)
        )
        notes = (filled(note, width) for note in sheet.notes)
        texts.append("\n".join((sheet.title, "", table, "", *notes)).rstrip() + "\n")
    return "\n".join(texts) or "no cells\n"


def to_markdown(sheets: Sequence[Sheet]) -> str:
    """Write GitHub's Markdown: a bold title, the table, its notes as a list."""
    texts = []
    for sheet in sheets:
        table = text.markdown([head.header for head in sheet.heads], _texts(sheet), _align(sheet))
        title, notes = f"**{MarkdownText(sheet.title)}**", text.bulleted(sheet.notes)
        texts.append("\n".join((title, "", table, "", notes)).rstrip() + "\n")
    return "\n".join(texts) or "No cells.\n"


def _texts(sheet: Sheet) -> list[list[str]]:
    return [[line.cells[head.key].text for head in sheet.heads] for line in sheet.lines]


def _align(sheet: Sheet) -> text.Align:
    return ["right" if head.number else "left" for head in sheet.heads]


def to_csv(sheets: Sequence[Sheet]) -> str:
    """Write all sheets, one line a row, in full precision."""
    return text.csv_text(to_frame(sheets))


def to_frame(sheets: Sequence[Sheet]) -> DataFrame:
    """Make a DataFrame of all sheets, one row per line: the columns of the CSV, in their order."""
    import pandas as pd  # takes most of a second to import, and only CSV needs it

    keys = dict.fromkeys(head.key for sheet in sheets for head in sheet.heads)
    rows = []
    for sheet in sheets:
        for line in sheet.lines:
            row = {"table": sheet.title, **line.as_json}
            for name, of in (("", "differences"), ("_printed", "printed")):
                for key, change in row.pop(of).items():
                    row[f"{key}{name}_difference"] = change["difference"]
                    row[f"{key}{name or '_difference'}_percent"] = change["percent"]
            rows.append({**row, **row.pop("values")})
    frame = pd.DataFrame(rows, dtype=object)
    suffixes = ("difference", "difference_percent"), ("printed_difference", "printed_percent")
    more = [f"{key}_{suffix}" for pair in suffixes for key in keys for suffix in pair]
    leading = ["table", "from", "cell", "status", "source"]
    return frame.reindex(columns=[*leading, *keys, *(name for name in more if name in frame)])


def to_json(sheets: Sequence[Sheet], shape: str, hidden: str = "") -> str:
    """Write JSON as the module's docstring says."""
    tables = [
        {
            "title": sheet.title,
            "columns": [{"key": head.key, "header": head.header} for head in sheet.heads],
            "rows": [line.as_json for line in sheet.lines],
            "notes": list(sheet.notes),
        }
        for sheet in sheets
    ]
    document = {"schema": 1, "shape": shape, "hidden": hidden, "tables": tables}
    return json_text(document) + "\n"
