"""The table in GitHub's Markdown: every column, measures by their machine names."""

import re
from collections.abc import Sequence

from runner.base.grid import aligned
from runner.tables.columns import alignment
from runner.tables.row import Row
from runner.tables.selection import select_columns


def to_markdown(table: Sequence[Row]) -> str:
    """Write the table in GitHub's Markdown, what all rows share above it, notes as a list below."""
    if not table:
        return "No cells.\n"
    chosen = select_columns(table)
    lines = []
    if chosen.common:
        shared = ", ".join(f"{escaped(k)} {escaped(v)}" for k, v in chosen.common.items())
        lines += [f"Common: {shared}", ""]
    lines.append(
        aligned(
            [[escaped(column.text(row)) for column in chosen.columns] for row in table],
            "pipe",
            headers=[
                escaped(column.key if column.kind == "measure" else column.one_line_header)
                for column in chosen.columns
            ],
            align=alignment(chosen.columns),
        )
    )
    below = [*chosen.problems, *chosen.notes]
    lines += ["", *(f"- {escaped(text)}" for text in below)] if below else []
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Escape Markdown's signs in `text`; an underscore inside a word is not one of them."""
    return re.sub(r"([\\`*|<>\[\]~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
