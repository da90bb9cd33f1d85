"""A DataFrame as CSV, for spreadsheets and for pandas: the one place that writes CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.base.escapes import CsvCell

if TYPE_CHECKING:
    from pandas import DataFrame


def csv_text(frame: DataFrame) -> str:
    """Write one header row, then one line a row, in full precision; an empty field is missing."""
    import pandas as pd  # takes most of a second to import, and only CSV needs it

    escaped = frame.rename(columns=_cell)
    for name, column in escaped.select_dtypes(["string", "object"]).items():
        # Not by `map`, which would make whole numbers beside None floats.
        escaped[name] = pd.Series(list(map(_cell, column)), column.index, column.dtype)
    text: str = escaped.to_csv(index=False, lineterminator="\n")
    return text


def _cell(value: Any) -> Any:
    return CsvCell(value) if isinstance(value, str) else value
