"""A campaign's table: in a terminal what a comparison needs, as Markdown and CSV every column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from node.printable import printable
from runner.base.escapes import MarkdownText
from runner.base.grid import filled
from runner.figures.publishable import CODES
from runner.tables import text
from runner.tables.columns import (
    COLUMNS,
    DOUBTFUL,
    HEADLINE,
    INCOMPLETE,
    Column,
    for_machines,
    for_people,
    select,
    signs,
)
from runner.tables.formatting import MISSING, axis_text, number_text
from runner.tables.notes import notes, problems
from runner.tables.row import (
    PUBLISHABLE,
    Row,
    axis_names,
    finished,
    parallel_size,
    sizes_named,
    value,
)
from runner.terms.memory import MEMORY

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_MARKS = 4  # whose meaning is told below the table
_SHOWN_BY = {  # axes without a column of their own
    "system": ("system",),
    "nodes_x_devices": ("nodes", "devices_per_node"),
    "batch": ("micro_batch_size", "global_batch_size"),
}
# What goes where the terminal is narrow, the first first.
_LOOSE = (*MEMORY, "step_time_ms", "model_tflop_per_s_per_device", "mfu_percent")
DIFFERENCE = f"{HEADLINE}_difference"
SHORT = {
    DIFFERENCE: "vs\nbaseline",
    "step_time_ms": "step\nms",
    "model_tflop_per_s_per_device": "TFLOP/s\n/device",
}
MORE = "More: --wide has every column, --notes what each figure is, --format html the plots."


def head(rows: Sequence[Row]) -> list[Column]:
    """Choose the columns that a comparison needs: the axes in which cells differ, samples/s with
    its ±, the difference from the baseline, step time, MFU, memory, and a mark.
    """

    def there(key: str) -> int:
        return sum(COLUMNS[key].text(row) != MISSING for row in rows)

    flops = "mfu_percent" if there("mfu_percent") else "model_tflop_per_s_per_device"
    memory = max(MEMORY, key=there)  # the best known one that most rows have
    measures = [key for key in (DIFFERENCE, "step_time_ms", flops, memory) if there(key)]
    short = [replace(COLUMNS[key], title=SHORT.get(key, COLUMNS[key].title)) for key in measures]
    chosen = [*_told_apart(rows), RATE, *short]
    return [*chosen, MARK] if any(map(_mark, rows)) else chosen


def _told_apart(rows: Sequence[Row]) -> list[Column]:
    """Choose what tells the cells apart: axes; their names where those do not."""
    named = set(axis_names(rows))
    shown_by = {**_SHOWN_BY, "parallel": tuple(sizes_named(rows))}
    chosen = [
        column
        for column in for_people(rows)
        if column.key.startswith("axis_") or named.intersection(shown_by.get(column.key, ()))
        if len({column.text(row) for row in rows}) > 1
    ]
    for some in ([column for column in chosen if column.key != "system"], chosen):
        if len({tuple(column.text(row) for column in some) for row in rows}) == len(rows) > 1:
            return some
    return [COLUMNS["cell"]]


def _rate(row: Row) -> str:
    """Show samples/s with half of its 95 % interval, in the same digits."""
    column, rate, half = COLUMNS[HEADLINE], row["figures"][HEADLINE], row["halves"].get(HEADLINE)
    if rate is None or half is None:
        return column.text(row)
    marks = column.text(row).removeprefix(column.number(row))
    return f"{column.number(row)} ± {number_text(half, column.places(rate))}{marks}"


def _mark(row: Row) -> str:
    """Say in a word what is to be known of a row; nothing of one that may be published."""
    if row["status"] != "ok":
        return row["status"]
    return "" if row["verdict"] == PUBLISHABLE else next(iter(row["verdict_reasons"]))


RATE = Column(HEADLINE, "samples/s", shown=_rate)
MARK = Column("mark", "mark", "name", shown=_mark)


def to_table(
    rows: Sequence[Row], width: int = 120, *, wide: bool = False, all_notes: bool = False
) -> str:
    """Write the table for terminals: what a comparison needs, in `width` columns where it can be,
    and at most four lines below; `wide` has every column that says something, `all_notes` all that
    is to be known.
    """
    if not rows:
        return "no cells\n"
    chosen, shared = select(rows)
    columns = chosen if wide else _fitting(rows, head(rows), width)
    below = [f"In all rows: {', '.join(f'{key} {text}' for key, text in shared.items())}."]
    below *= bool(shared)
    below += [*problems(rows), *notes(rows)] if all_notes else _brief(rows)
    return f"{_grid(rows, columns)}\n\n" + "\n".join(filled(line, width) for line in below) + "\n"


def _fitting(rows: Sequence[Row], columns: list[Column], width: int) -> list[Column]:
    for key in _LOOSE:
        if max(map(len, _grid(rows, columns).splitlines())) <= width:
            break
        columns = [column for column in columns if column.key != key]
    return columns


def _grid(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    body = [[column.text(row) for column in columns] for row in rows]
    return text.terminal([column.title for column in columns], body, alignment(columns))


def _brief(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what the marks mean, what it takes to know more, and where the rest is."""
    meanings: dict[str, list[str]] = {}
    for mark, why in _marks(rows):
        meanings.setdefault(mark, []).append(why)
    order = list(meanings)
    if len(order) > MOST_MARKS:  # why a run did not end is told before what speaks against others
        statuses = {row["status"] for row in rows}
        order.sort(key=lambda mark: mark not in statuses)
    told = [f"{mark}: {'; '.join(dict.fromkeys(meanings[mark]))}" for mark in order]
    if told:
        more = f"; {len(told) - MOST_MARKS} more: --notes" if len(told) > MOST_MARKS else ""
        yield f"{'. '.join(told[:MOST_MARKS])}{more}."
    worst = [  # that the status does not say
        next((word for word in row["verdict_reasons"] if word != "not_ok"), "") for row in rows
    ]
    cures = dict.fromkeys(f"{CODES[word].cure} ({word})" for word in worst if word)
    if cures:
        yield f"To be sure: {'; '.join(list(cures)[:MOST_MARKS])}."
    yield MORE


def _marks(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Yield each mark that the table shows, with why it is there."""
    for row in rows:
        if row["status"] != "ok":
            yield row["status"], printable(row["reason"])
        elif row["verdict_reasons"]:
            word, why = next(iter(row["verdict_reasons"].items()))
            yield f"{CODES[word].sign} {word}".strip(), printable(why)
        if row["numbers_from"] and not finished(row):
            yield INCOMPLETE, "the run did not end: not a result"
        comparison = row["comparison"]
        if comparison and comparison["differences"] and comparison["note"]:
            yield DOUBTFUL, printable(comparison["note"])
        for sign in signs(row):
            words = [w for w in row["verdict_reasons"] if CODES[w].sign == sign]
            if row["status"] != "ok" or words[0] != next(iter(row["verdict_reasons"])):
                yield f"{sign} {words[0]}", printable(row["verdict_reasons"][words[0]])


def to_markdown(rows: Sequence[Row]) -> str:
    """Write every column in GitHub's Markdown, measures by their keys; what all rows share above
    it, notes as a list below.
    """
    if not rows:
        return "No cells.\n"
    columns, shared = select(rows)
    lines = []
    if shared:
        lines += [MarkdownText(f"Common: {_listed(shared)}"), ""]
    heads = [c.key if c.kind == "measure" else c.one_line_title for c in columns]
    body = [[column.text(row) for column in columns] for row in rows]
    lines.append(text.markdown(heads, body, alignment(columns)))
    below = [*problems(rows), *notes(rows)]
    lines += ["", text.bulleted(below)] if below else []
    return "\n".join(lines) + "\n"


def _listed(shared: dict[str, str]) -> str:
    return ", ".join(f"{title} {words}" for title, words in shared.items())


def alignment(columns: Sequence[Column]) -> text.Align:
    """Return how each column is set: measures to the right."""
    return ["right" if column.kind == "measure" else "left" for column in columns]


def to_frame(rows: Sequence[Row]) -> DataFrame:
    """Make a typed DataFrame, one row per cell: figures by their keys, then `axis_<name>`.

    Whole numbers are Int64, others float64, texts string, yes or no boolean; what is missing is NA
    or NaN. An axis of anything but numbers is text, as a matrix file writes it.
    """
    import pandas as pd  # takes most of a second to import, and only a few outputs need it

    columns = {
        column.key: [_for_machines(column, row) for row in rows] for column in for_machines(rows)
    }
    columns |= {name: [parallel_size(row, name) for row in rows] for name in sizes_named(rows)}
    for axis in axis_names(rows):
        values = [value(row, axis) for row in rows]
        numbers = all(type(each) in (int, float) for each in values)
        columns[f"axis_{axis}"] = values if numbers else [axis_text(row, axis) for row in rows]
    return pd.DataFrame(
        {name: pd.array(values, dtype=_dtype(values)) for name, values in columns.items()}
    )


def _for_machines(column: Column, row: Row) -> Any:
    found = column.value(row)
    if column.key == "hosts":
        return "; ".join(map(" ".join, found)) or None
    return found if found != "" else None


def _dtype(values: Sequence[Any]) -> Any:
    kinds = {type(each) for each in values if each is not None}
    if int in kinds and any(abs(v) >= 1 << 63 for v in values if isinstance(v, int)):
        return "object"  # more digits than numpy has
    if kinds <= {int, float}:
        return "Int64" if kinds == {int} else "float64"
    return "boolean" if kinds == {bool} else "string"


def to_csv(rows: Sequence[Row]) -> str:
    """Write one line per cell."""
    return text.csv_text(to_frame(rows))
