"""What people are shown of a table: its columns, what all rows share, and the lines below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from node.printable import printable
from runner.tables.catalogue.column import Column
from runner.tables.catalogue.every_column import for_people
from runner.tables.footnotes import notes
from runner.tables.formatting import MISSING
from runner.tables.row import Row


@dataclass(frozen=True)
class Selection:
    """The columns left, what all rows share, cells that are not ok, and what to know."""

    columns: tuple[Column, ...]
    common: Mapping[str, str]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def select_columns(table: Sequence[Row]) -> Selection:
    """Choose the columns: fold what all rows share, leave out what no row has."""
    columns: list[Column] = []
    common: dict[str, str] = {}
    for column in for_people(table):
        texts = {column.text(row) for row in table if row.finished or not column.logged}
        if column.logged:
            texts -= {MISSING}
        if column.kind == "setting" and len(texts) <= 1:
            shared = {column.text(row) for row in table} <= {*texts, MISSING}
            for text in texts - {MISSING} if shared else ():
                common[column.one_line_title] = text
        elif not texts <= {MISSING} | column.nothing:
            columns.append(column)
    return Selection(
        columns=tuple(columns),
        common=common,
        problems=tuple(problems(table)),
        notes=tuple(notes(table)),
    )


def problems(table: Sequence[Row]) -> list[str]:
    """Say of each row that is not ok how it ended, and why."""
    return [
        f"{printable(row.cell)}: {row.status}: {printable(row.reason)}"
        for row in table
        if row.status != "ok"
    ]


def alignment(columns: Sequence[Column]) -> list[str]:
    """Return how each column is set: measures to the right."""
    return ["right" if column.kind == "measure" else "left" for column in columns]
