"""What a column is: all that tables, pages and comparisons know of a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from runner.tables.formatting import MISSING, decimals, number_text, percent_text
from runner.tables.judged import signs
from runner.tables.row import Row

INCOMPLETE = "†"  # beside a number of a run that did not end ok
DOUBTFUL = "‡"  # beside a difference that a note comments on

Value = Callable[[Row], Any]
Text = Callable[[Row], str]
Note = Callable[[Sequence[Row]], Iterator[str]]
_Condition = Callable[[Sequence[Row]], bool]


@dataclass(frozen=True)
class Column:
    """One column: a figure, a setting or a name of a cell.

    Machines (CSV, JSON) have each column with a `value`, in the order of the catalogue. People
    (terminal, Markdown, page) have those with a `place`, in its order.
    """

    key: str  # the machine name; the unit is its last part
    value: Value | None = None  # from a row, in full precision; None: a column for people alone
    type: str | tuple[str, ...] = "number"  # in the JSON schema: a type, or the words it may be
    always: bool = False  # JSON never has null here
    title: str = ""  # the header, with the line breaks of a narrow table
    kind: Literal["name", "setting", "measure"] = "measure"  # settings alike in all rows fold
    place: float = 0  # among the columns for people; 0: for machines alone
    worth: float | None = None  # narrow tables give up the least worth first, None never
    shown: Text | None = None  # the text of a row, where that is not the value as a number
    decimals: int | None = None  # of the number; None: four significant digits
    better: Literal[-1, 0, 1] = 0  # 1: more is better, -1: less, 0: neither
    words: tuple[str, str] = ("worse", "better")  # what `compare` calls a change
    threshold_percent: float | None = None  # that a change may have, unless told otherwise
    by_runs: bool = False  # runs of one setting differ: their noise decides on a difference
    nothing: frozenset[str] = frozenset()  # texts without news: a column of these alone is hidden
    logged: bool = False  # depends on what the runs logged, so unfinished runs do not count
    machine_if: _Condition | None = None  # which tables have the column in CSV and JSON
    people_if: _Condition | None = None  # which tables have the column for people
    missing: Text | None = None  # why the value is null; the statistics' own reason without it
    note: str | Note = ""  # what a reader must know of the column

    @property
    def one_line_title(self) -> str:
        """The title without its line breaks."""
        return self.title.replace("/\n", "/").replace("\n/", "/").replace("\n", " ")

    def text(self, row: Row) -> str:
        """Return what people read in a row."""
        if self.shown is not None:
            return self.shown(row)
        text = self.number(row)
        if text == MISSING or self.kind != "measure":
            return text
        return text + ("" if row.finished else INCOMPLETE) + signs(row) * (self.key == HEADLINE)

    def number(self, row: Row) -> str:
        """Return the value as people read numbers, without marks."""
        value = self.value(row) if self.value else None
        return MISSING if value is None else number_text(value, self.places(value))

    def places(self, value: float) -> int:
        """Return how many decimals a value is shown with."""
        return decimals(value) if self.decimals is None else self.decimals

    def json_schema(self) -> dict[str, Any]:
        """Return what a value may be in JSON."""
        if isinstance(self.type, tuple):
            return {"enum": [*self.type, *([] if self.always else [None])]}
        return {"type": self.type if self.always else [self.type, "null"]}

    def why_missing(self, row: Row) -> str:
        """Return why a row has no value here; empty where it has one, or nothing is known."""
        if self.missing is not None:
            return self.missing(row)
        return row.statistics.missing.get(self.key, "")

    def notes(self, table: Sequence[Row]) -> Iterator[str]:
        """Yield what a reader must know of the column in this table."""
        if callable(self.note):
            yield from self.note(table)
        elif self.note and any(self.value and self.value(row) is not None for row in table):
            yield self.note


HEADLINE = "samples_per_s"


def percent(value: Value) -> Text:
    """Write a value as percent."""
    return lambda row: percent_text(value(row))


def count(value: Value) -> Text:
    """Write a value as a whole number, without marks."""
    return lambda row: number_text(value(row), 0)
