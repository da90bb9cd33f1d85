"""Columns of what others reached under such conditions."""

from collections.abc import Iterator, Sequence
from typing import Any

from node.printable import printable
from runner.expect.expectation import percent_text
from runner.tables.catalogue.column import Column, Value
from runner.tables.formatting import MISSING
from runner.tables.row import Row


def _has_expectation(table: Sequence[Row]) -> bool:
    return any(row.expectation for row in table)


def _expectation(name: str) -> Value:
    return lambda row: getattr(row.expectation, name, None)


def _column(key: str, value: Value, type: str = "number", **more: Any) -> Column:
    return Column(key, value, type, machine_if=_has_expectation, **more)


def _percent_text(row: Row) -> str:
    expectation = row.expectation
    if expectation is None or expectation.percent is None:
        return MISSING
    percent = f"{percent_text(expectation.percent)} %"
    return percent if expectation.same else f"({percent})"


def of_expectations(table: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each cell: of what it is a percentage, and how that differs."""
    for row in table:
        if row.expectation:
            yield f"Beside others, {printable(row.cell)}: {printable(row.expectation.words)}."


EXPECTED = (
    _column(
        "expected_percent",
        _expectation("percent"),
        title="of\nothers",
        place=455,
        worth=385,
        shown=_percent_text,
        people_if=_has_expectation,
        missing=lambda r: "" if r.expectation else "no known published figure matches",
    ),
    _column("expected_tokens_per_s_per_device", _expectation("median")),
    _column(
        "expected_figures",
        lambda r: len(r.expectation.references) if r.expectation else None,
        "integer",
    ),
    _column(
        "expected_differences",
        lambda r: (r.expectation.difference_words or None) if r.expectation else None,
        "string",
    ),
)
