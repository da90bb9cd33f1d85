"""Numbers and settings as people read them, in tables, notes and the report."""

import math
import re
from collections.abc import Mapping
from typing import Any

from node.printable import printable
from runner.tables.row import Row, RowDifference, value

MISSING = "–"
MOST_DECIMALS = 9


def value_text(value: Any) -> str:
    """Write an axis value as a matrix file would, on one line: true, null, 1, name, K=V K=V."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return " ".join(f"{k}={value_text(v)}" for k, v in value.items()) or "{}"
    if isinstance(value, list | tuple):
        return ",".join(value_text(item) for item in value) or "[]"
    return printable(str(value))


def initials(name: str) -> str:
    """Write a parallel size in a few letters: `tp` for tensor_parallel."""
    return "".join(word[0] for word in name.split("_") if word)


def axis_text(row: Row, axis: str) -> str | None:
    """Return the row's value of an axis; None when neither its axes nor its parameters have one."""
    found = value(row, axis)
    return None if found is None and axis not in row["axes"] else value_text(found)


def decimals(value: float) -> int:
    """Say how many decimals show four significant digits of `value`, and none beyond 1000."""
    size = abs(value)
    return next((d for limit, d in ((1000, 0), (100, 1), (10, 2), (1, 3)) if size >= limit), 4)


def number_text(value: float | None, places: int | None = None) -> str:
    """Write a number with four significant digits (or `places` decimals), 10,000 and more
    grouped.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    places = decimals(value) if places is None else places
    return f"{value:{',' if abs(value) >= 10_000 else ''}.{places}f}"


def percent_text(value: float | None) -> str:
    """Write percent with one decimal."""
    return MISSING if value is None else f"{value:.1f}%"


def small_decimals(value: float) -> int:
    """Say how many decimals show four significant digits of a value, below 1, too."""
    return decimals(value) if value >= 1 else min(3 - math.floor(math.log10(value)), MOST_DECIMALS)


def change_text(difference: RowDifference | None) -> str:
    """Write a difference in percent with the larger half of its 95 % interval: `-28.1 % ± 3.2`.

    Without an interval there is no ±, and a note below the table says why.
    """
    if difference is None:
        return MISSING
    text = f"{difference['percent']:+.1f} %"
    return text if difference["half"] is None else f"{text} ± {difference['half']:.1f}"


def difference_text(absolute: float, percent: float, places: int) -> str:
    """Write a difference as document 003 does (docs/documents.md): `-1754,↓31.3%`."""
    size = percent_text(abs(percent))
    arrow = "" if size == "0.0%" else "↑" if percent > 0 else "↓"
    return f"{absolute:+.{places}f},{arrow}{size}"


def short_digests(text: str) -> str:
    """Cut checksums and commits in a text to their first 12 letters, which a person can compare."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b", r"\1…", text)
