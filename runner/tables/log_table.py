"""Many logs side by side, a row a log, in four formats: `parse --each`. Pure.

A row is what `parse` prints of a log, behind `log`, its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from node.printable import printable
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import aligned, filled
from runner.tables.formatting import MISSING
from runner.tables.markdown import bulleted, piped
from runner.tables.spreadsheet import csv_text
from runner.terms.memory import MEMORY

LogRow = Mapping[str, Any]
# What people see, beside the texts: how its numbers are written. Machines have every key.
_TEXTS = ("log", "family", "system", "status")
_NUMBERS: Mapping[str, tuple[str, str]] = {
    "logged_lines": ("steps", "d"),
    "last_iteration": ("iteration", ",d"),
    "planned_iterations": ("of", ",d"),
    "step_time_ms": ("step ms", ".1f"),
    "samples_per_s": ("samples/s", ".2f"),
    "samples_per_s_median": ("median", ".2f"),
    "stalls_percent": ("stalls %", ".1f"),
    "tokens_per_s": ("tokens/s", ",.0f"),
    "tokens_per_s_per_device": ("tokens/s a device", ",.0f"),
    "last_loss": ("last loss", ".4g"),
    "last_validation_loss": ("validation loss", ".4g"),
    **{key: (f"{figure.title} MiB", ".0f") for key, figure in MEMORY.items()},
}


def render(rows: Sequence[LogRow], format: str, width: int = 120) -> str:
    """Write the rows as table, markdown, csv or json."""
    return {"markdown": _markdown, "csv": _csv, "json": _json}.get(format, _table)(rows, width)


def _table(rows: Sequence[LogRow], width: int) -> str:
    headers, cells, align = _cells(rows)
    reasons = (filled(f"{logs}: {reason}", width) for reason, logs in _reasons(rows).items())
    return "\n".join((aligned(cells, "simple", headers, align), "", *reasons)) + "\n"


def _markdown(rows: Sequence[LogRow], width: int) -> str:
    headers, cells, align = _cells(rows)
    table = piped(
        list(map(MarkdownText, headers)), [list(map(MarkdownText, row)) for row in cells], align
    )
    reasons = (MarkdownText(f"{logs}: {reason}") for reason, logs in _reasons(rows).items())
    return f"{table}\n\n{bulleted(reasons)}\n"


def _csv(rows: Sequence[LogRow], width: int) -> str:
    import pandas as pd  # takes most of a second to import, and only CSV needs it

    return csv_text(pd.DataFrame([dict(row) for row in rows], dtype=object))


def _json(rows: Sequence[LogRow], width: int) -> str:
    return json_text(list(rows), indent=1) + "\n"


def _cells(rows: Sequence[LogRow]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return headers, texts and sides; a figure that no log has takes no column."""
    numbers = {
        key: how
        for key, how in _NUMBERS.items()
        if key == "logged_lines" or any(row[key] is not None for row in rows)
    }
    headers = [*_TEXTS, *(header for header, _ in numbers.values())]
    written = {**dict.fromkeys(_TEXTS, ""), **{key: how for key, (_, how) in numbers.items()}}
    cells = [
        [
            MISSING if row[key] is None else printable(format(row[key], how))
            for key, how in written.items()
        ]
        for row in rows
    ]
    return headers, cells, ["left"] * len(_TEXTS) + ["right"] * len(numbers)


def _reasons(rows: Sequence[LogRow]) -> dict[str, str]:
    """Return each reason with the logs that it is of."""
    logs: dict[str, list[str]] = {}
    for row in rows:
        logs.setdefault(row["reason"], []).append(str(row["log"]))
    return {reason: ", ".join(names) for reason, names in logs.items() if reason}
