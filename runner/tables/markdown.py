"""The table in GitHub's Markdown: every column, measures by their machine names.

`piped` and `bulleted` are what all our Markdown is made of; they take escaped text alone.
"""

from collections.abc import Iterable, Sequence

from runner.base.escapes import MarkdownText
from runner.base.grid import aligned
from runner.tables.row import Row
from runner.tables.selection import alignment, select_columns


def to_markdown(table: Sequence[Row]) -> str:
    """Write the table in GitHub's Markdown, what all rows share above it, notes as a list below."""
    if not table:
        return "No cells.\n"
    chosen = select_columns(table)
    lines = []
    if chosen.common:
        shared = ", ".join(f"{name} {value}" for name, value in chosen.common.items())
        lines += [MarkdownText(f"Common: {shared}"), ""]
    lines.append(
        piped(
            [
                MarkdownText(column.key if column.kind == "measure" else column.one_line_title)
                for column in chosen.columns
            ],
            [[MarkdownText(column.text(row)) for column in chosen.columns] for row in table],
            alignment(chosen.columns),
        )
    )
    below = [*chosen.problems, *chosen.notes]
    lines += ["", bulleted(map(MarkdownText, below))] if below else []
    return "\n".join(lines) + "\n"


def piped(
    headers: Sequence[MarkdownText],
    rows: Iterable[Sequence[MarkdownText]],
    align: Sequence[str] | None = None,
) -> str:
    """Write a table, its columns aligned with `:` where `align` says how."""
    return aligned(list(rows), "pipe" if align else "github", headers, align)


def bulleted(lines: Iterable[MarkdownText]) -> str:
    """Write a list."""
    return "\n".join(f"- {line}" for line in lines)
