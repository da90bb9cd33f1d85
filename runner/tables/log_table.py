"""Many logs side by side, a row a log, in four formats: `parse --each`. Pure.

A row is what `parse` prints of a log, behind `log`, its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from node.printable import printable
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import aligned, filled
from runner.tables.catalogue.column import Column
from runner.tables.catalogue.every_column import COLUMNS
from runner.tables.formatting import MISSING, number_text
from runner.tables.markdown import bulleted, piped
from runner.tables.spreadsheet import csv_text
from runner.terms.memory import MEMORY

LogRow = Mapping[str, Any]
# What people see: texts, then figures. Machines have every key.
_TEXTS = ("log", "family", "system", "status")
_COUNTS = {"logged_lines": "steps", "last_iteration": "iteration", "planned_iterations": "of"}
_SAME = (
    *("step_time_ms", "samples_per_s", "samples_per_s_median", "stalls_percent"),
    *("tokens_per_s", "tokens_per_s_per_device"),
)
# A log's key to the column of a campaign that it is written like.
_COLUMNS = {
    **{key: key for key in _SAME},
    **{"last_loss": "final_loss", "last_validation_loss": "validation_loss"},
    **{key: key for key in MEMORY},
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
    numbers = [
        key
        for key in (*_COUNTS, *_COLUMNS)
        if key == "logged_lines" or any(row[key] is not None for row in rows)
    ]
    headers = [*_TEXTS, *(_COUNTS.get(key) or _column(key).one_line_title for key in numbers)]
    cells = [
        [
            *(MISSING if row[key] is None else printable(str(row[key])) for key in _TEXTS),
            *(_number(key, row[key]) for key in numbers),
        ]
        for row in rows
    ]
    return headers, cells, ["left"] * len(_TEXTS) + ["right"] * len(numbers)


def _number(key: str, value: float | None) -> str:
    if value is None:
        return MISSING
    return number_text(value, 0 if key in _COUNTS else _column(key).places(value))


def _column(key: str) -> Column:
    return COLUMNS[_COLUMNS[key]]


def _reasons(rows: Sequence[LogRow]) -> dict[str, str]:
    """Return each reason with the logs that it is of."""
    logs: dict[str, list[str]] = {}
    for row in rows:
        logs.setdefault(row["reason"], []).append(str(row["log"]))
    return {reason: ", ".join(names) for reason, names in logs.items() if reason}
