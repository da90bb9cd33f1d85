"""Many logs side by side, a row a log, in four formats: `parse --each`. Pure.

A row is what `parse` prints of a log, behind `log`, its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from node.printable import printable
from runner.base.escapes import json_text
from runner.base.grid import filled
from runner.tables import text
from runner.tables.columns import COLUMNS, title
from runner.tables.formatting import MISSING, number_text
from runner.terms.memory import MEMORY

LogRow = Mapping[str, Any]
# What people see: texts, counts, and figures, each with the campaign's column that it is written
# like. Machines have every key.
_TEXTS = ("log", "family", "system", "status")
_COUNTS = {"logged_lines": "steps", "last_iteration": "iteration", "planned_iterations": "of"}
_SPEEDS = ("step_time_ms", "samples_per_s", "stalls_percent")
_COLUMNS = {
    **{key: key for key in (*_SPEEDS, "tokens_per_s", "tokens_per_s_per_device", *MEMORY)},
    **{"last_loss": "final_loss", "last_validation_loss": "validation_loss"},
}


def render(rows: Sequence[LogRow], format: str, width: int = 120) -> str:
    """Write the rows as table, markdown, csv or json."""
    if format == "json":
        return json_text(list(rows), indent=1) + "\n"
    if format == "csv":
        import pandas as pd  # takes most of a second to import, and only CSV needs it

        return text.csv_text(pd.DataFrame([dict(row) for row in rows], dtype=object))
    there = [key for key in (*_COUNTS, *_COLUMNS) if any(row[key] is not None for row in rows)]
    headers = [
        *_TEXTS,
        *(_COUNTS.get(key) or title(_COLUMNS[key]) for key in there),
    ]
    cells = [[_text(key, row[key]) for key in (*_TEXTS, *there)] for row in rows]
    align: text.Align = ["left" if at < len(_TEXTS) else "right" for at in range(len(headers))]
    logs: dict[str, list[str]] = {}
    for row in rows:
        logs.setdefault(row["reason"], []).append(str(row["log"]))
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in logs.items() if reason]
    if format == "markdown":
        return f"{text.markdown(headers, cells, align)}\n\n{text.bulleted(reasons)}\n"
    table = text.terminal(headers, cells, align)
    return "\n".join((table, "", *(filled(reason, width) for reason in reasons))) + "\n"


def _text(key: str, value: Any) -> str:
    if value is None:
        return MISSING
    if key in _TEXTS:
        return printable(str(value))
    return number_text(value, 0 if key in _COUNTS else COLUMNS[_COLUMNS[key]].places(value))
