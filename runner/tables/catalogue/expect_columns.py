"""Columns of what others reached under such conditions."""

from collections.abc import Iterator, Sequence

from node.printable import printable
from runner.expect.expectation import percent_text
from runner.tables.catalogue.column import Column
from runner.tables.formatting import MISSING
from runner.tables.row import Row


def _has_expectation(table: Sequence[Row]) -> bool:
    return any(row.expectation for row in table)


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
    Column(
        "expected_percent",
        lambda row: getattr(row.expectation, "percent", None),
        title="of\nothers",
        place=455,
        worth=385,
        shown=_percent_text,
        machine_if=_has_expectation,
        people_if=_has_expectation,
        missing=lambda r: "" if r.expectation else "no known published figure matches",
    ),
    Column(
        "expected_differences",
        lambda row: (row.expectation.difference_words or None) if row.expectation else None,
        "string",
        machine_if=_has_expectation,
    ),
)
