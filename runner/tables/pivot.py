"""Rows, columns and values as asked for; the systems side by side is one case. Pure."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from node.printable import printable
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix.table_shape import TableShape
from runner.tables.baseline import difference
from runner.tables.columns import COLUMNS, DOUBTFUL, machine_names, published_figure, signs
from runner.tables.columns import title as title_of
from runner.tables.formatting import MISSING, change_text, number_text, value_text
from runner.tables.notes import notes, of_published
from runner.tables.row import Row, axis_names, facts, finished, parallel_size
from runner.tables.sheet import Head, Line, Sheet, SheetCell

_FRAMEWORKS = ("memory_used_mib", "samples_per_s")


def pivot(table: Sequence[Row], layout: TableShape) -> list[Sheet]:
    """Build one sheet a value of `split`; a line for each value of `rows`, side by side by
    `columns`.

    Raises UserError for a key that no cell has, without any value that one has, and where two
    cells would share one place.
    """
    systems = layout.shape == "frameworks"
    columns = layout.columns or (("system",) if systems else ())
    values = layout.values or (_FRAMEWORKS if systems else ("samples_per_s",))
    cut = layout.split or ()
    rows = layout.rows or tuple(k for k in axis_names(table) if k not in (*columns, *cut))
    every_fact = dict.fromkeys(key for row in table for key in facts(row))
    for key in (*rows, *columns, *cut):
        if table and key not in every_fact:
            raise UserError(f"table: no cell has the key {key!r}{nearest(key, every_fact)}")
    names = machine_names(table)
    # A campaign of another version may name a column that this one does not have.
    left_out = [
        f"table: there is no column {value!r}{nearest(value, names)}"
        for value in values
        if value not in names
    ]
    values = tuple(value for value in values if value in names)
    if not values:
        raise UserError(left_out[0])
    bases = {(row["campaign"], row["cell_id"]): row for row in table}
    places: dict[tuple[str, ...], dict[tuple[str, ...], dict[tuple[str, ...], Row]]] = {}
    for row in table:
        at, line, beside = (_position(row, keys) for keys in (cut, rows, columns))
        here = places.setdefault(at, {}).setdefault(line, {})
        if beside in here:
            first, second = (printable(each["cell"]) for each in (here[beside], row))
            raise UserError(
                f"table: {first!r} and {second!r} are in the same place; name in `rows` or"
                f" `columns` the axis that separates them ({', '.join(axis_names(table))})"
            )
        here[beside] = row
    return [
        _side_by_side(
            ", ".join(f"{k} {v}" for k, v in zip(cut, at, strict=True)) or "all cells",
            [row for row in table if _position(row, cut) == at],
            lines,
            (rows, columns, values),
            [*map(printable, left_out)],
            bases,
        )
        for at, lines in places.items()
    ]


def _position(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    known = facts(row)
    return tuple(MISSING if key not in known else value_text(known[key]) for key in keys)


def _side_by_side(
    title: str,
    table: Sequence[Row],
    lines: Mapping[tuple[str, ...], Mapping[tuple[str, ...], Row]],
    layout: tuple[Sequence[str], Sequence[str], Sequence[str]],
    left_out: Sequence[str],
    bases: Mapping[tuple[str, str], Row],
) -> Sheet:
    rows, columns, values = layout
    beside = [*dict.fromkeys(_position(row, columns) for row in table)]
    shown = [*product(beside, (*values, "steps_measured", "status"))]
    heads = [Head(key, key, number=False) for key in rows]
    heads += [
        Head(":".join((*column, value)), " ".join((*column, title_of(value))), value != "status")
        for column, value in shown
    ]
    built = []
    for name, here in lines.items():
        cells = {key: SheetCell(text, text) for key, text in zip(rows, name, strict=True)}
        for column, value in shown:
            cells[":".join((*column, value))] = _cell(here.get(column), value, bases)
        statuses = dict.fromkeys(row["status"] for row in here.values())
        names = [row["cell"] for row in here.values()]
        built.append(Line("ours", ", ".join(statuses), cells, ", ".join(names)))
    reasons = [
        f"{printable(r['cell'])}: {r['status']}: {printable(r['reason'])}"
        for r in table
        if r["reason"]
    ]
    return Sheet(title, heads, built, (*left_out, *reasons, *notes(table), *of_published(table)))


def _value(row: Row, key: str) -> Any:
    """Return a figure, or a parallel size."""
    return parallel_size(row, key) if key.endswith("_parallel") else COLUMNS[key].value(row)


def _cell(row: Row | None, key: str, bases: Mapping[tuple[str, str], Row]) -> SheetCell:
    if row is None:
        return SheetCell(MISSING)
    value = _value(row, key)
    if key == "steps_measured":
        return SheetCell(number_text(value, 0), value)
    if isinstance(value, str | bool):
        return SheetCell(printable(str(value)), value)
    if value is None or not finished(row):
        return SheetCell(MISSING)
    text = number_text(value, COLUMNS[key].places(value) if key in COLUMNS else 0)
    compared = row["comparison"]
    change = compared["differences"].get(key) if compared else None
    base = None
    if compared and not compared["is_baseline"]:
        base = bases.get((row["campaign"], compared["base"] or ""))
    if change is None and base is not None and finished(base):
        theirs = _value(base, key)
        change = difference(value, theirs) if theirs else None
    if change is not None:
        text += f" ({change_text(change)})"
        text += DOUBTFUL if compared and compared["note"] else ""
    text += signs(row) if key == "samples_per_s" else ""
    printed = published_figure(row, key)
    text += "" if printed is None else f" [published {printed:.10g}]"
    return SheetCell(text, value, change)
