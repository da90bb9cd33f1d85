"""The one writer of tables as text: for terminals, as GitHub's Markdown, as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from runner.base.escapes import CsvCell, MarkdownText
from runner.base.grid import aligned

if TYPE_CHECKING:
    from pandas import DataFrame

Align = Sequence[Literal["left", "right"]]


def terminal(headers: Sequence[str], rows: Iterable[Sequence[str]], align: Align) -> str:
    """Write it for a terminal, as wide as it is; a header may have several lines."""
    body = list(rows)
    tops = ["bottom", *("top" for _ in body)]
    lines = aligned([list(headers), *body], "plain", (), align, tops).splitlines()
    height = max(header.count("\n") for header in headers) + 1
    rule = "-" * max(map(len, lines))
    return "\n".join(line.rstrip() for line in (*lines[:height], rule, *lines[height:]))


def markdown(
    headers: Sequence[str], rows: Iterable[Sequence[str]], align: Align | None = None
) -> str:
    """Write it in Markdown, its columns aligned with `:` where `align` says how."""
    titles = [MarkdownText(header) for header in headers]
    body = [[MarkdownText(cell) for cell in row] for row in rows]
    return aligned(body, "pipe" if align else "github", titles, align)


def bulleted(lines: Iterable[str]) -> str:
    """Write a list in Markdown."""
    return "\n".join(f"- {MarkdownText(line)}" for line in lines)


def csv_text(frame: DataFrame) -> str:
    """Write one header row, then one line a row, in full precision; an empty field is missing."""
    import pandas as pd  # takes most of a second to import, and only CSV needs it

    escaped = frame.rename(columns=_cell)
    for name, column in escaped.select_dtypes(["string", "object"]).items():
        # Not by `map`, which would make whole numbers beside None floats.
        escaped[name] = pd.Series(list(map(_cell, column)), column.index, column.dtype)
    written: str = escaped.to_csv(index=False, lineterminator="\n")
    return written


def _cell(value: Any) -> Any:
    return CsvCell(value) if isinstance(value, str) else value
