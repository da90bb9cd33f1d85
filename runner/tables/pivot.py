"""Rows, columns and values as asked for; the systems side by side is one case. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from node.printable import printable
from runner.base.errors import UserError
from runner.base.suggest import nearest
from runner.matrix.published import PublishedRow
from runner.matrix.table_shape import TableShape
from runner.tables.columns import COLUMNS, DOUBTFUL, machine_names, published_figure, signs
from runner.tables.columns import title as title_of
from runner.tables.entries import difference_of
from runner.tables.formatting import MISSING, change_text, number_text, value_text
from runner.tables.notes import notes, of_published
from runner.tables.row import Row, axis_names, facts, finished, parallel_size
from runner.tables.sheet import Head, Line, Sheet, SheetCell

if TYPE_CHECKING:
    from pandas import DataFrame

_FRAMEWORKS = ("memory_used_mib", "samples_per_s")


def pivot(
    table: Sequence[Row], published: Sequence[PublishedRow], layout: TableShape
) -> list[Sheet]:
    """Build one sheet a value of `split`; a line for each value of `rows`, side by side by
    `columns`.

    Raises UserError for a key that no cell has, without any value that one has, and where two
    cells would share one place.
    """
    columns = layout.columns or (("system",) if layout.shape == "frameworks" else ())
    values = layout.values or (_FRAMEWORKS if layout.shape == "frameworks" else ("samples_per_s",))
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
    import pandas as pd  # takes most of a second to import, and no other shape needs it

    grouping = {"sheet": cut, "line": rows, "beside": columns}
    places = pd.DataFrame(
        [
            {name: _position(row, keys) for name, keys in grouping.items()} | {"row": row}
            for row in table
        ],
        columns=[*grouping, "row"],
    )
    bases = {(row["campaign"], row["cell_id"]): row for row in table}
    return [
        _sheet(
            ", ".join(f"{k} {v}" for k, v in zip(cut, name, strict=True)) or "all cells",
            group,
            rows,
            values,
            left_out,
            bases,
        )
        for name, group in _groups(places, "sheet")
    ]


def _groups(places: DataFrame, by: str) -> Any:
    """Split places by tuples, in the order first seen; the types of pandas know no tuples."""
    return places.groupby(by, sort=False)


def _position(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    row_facts = facts(row)
    return tuple(MISSING if key not in row_facts else value_text(row_facts[key]) for key in keys)


def _sheet(
    title: str,
    group: DataFrame,
    rows: Sequence[str],
    values: Sequence[str],
    left_out: Sequence[str],
    bases: Mapping[tuple[str, str], Row],
) -> Sheet:
    table: list[Row] = list(group["row"])
    for _, same_position in group.groupby(["line", "beside"], sort=False)["row"]:
        if len(same_position) > 1:
            first_cell, second_cell = (printable(row["cell"]) for row in same_position[:2])
            raise UserError(
                f"table: {first_cell!r} and {second_cell!r} are in the same place; name in `rows`"
                f" or `columns` the axis that separates them ({', '.join(axis_names(table))})"
            )
    beside: list[tuple[str, ...]] = list(group["beside"].unique())
    heads = [Head(key, key, number=False) for key in rows]
    for column, value in product(beside, (*values, "steps_measured", "status")):
        key = ":".join((*column, value))
        header = " ".join((*column, title_of(value)))
        heads.append(Head(key, header, number=value != "status"))
    lines = [
        _line(
            name, dict(zip(here["beside"], here["row"], strict=True)), rows, beside, values, bases
        )
        for name, here in _groups(group, "line")
    ]
    below = [*map(printable, left_out)]
    below += [
        f"{printable(r['cell'])}: {r['status']}: {printable(r['reason'])}"
        for r in table
        if r["reason"]
    ]
    return Sheet(title, tuple(heads), tuple(lines), (*below, *notes(table), *of_published(table)))


def _line(
    name: Sequence[str],
    here: Mapping[tuple[str, ...], Row],
    rows: Sequence[str],
    beside: Sequence[tuple[str, ...]],
    values: Sequence[str],
    bases: Mapping[tuple[str, str], Row],
) -> Line:
    cells = {key: SheetCell(text, text) for key, text in zip(rows, name, strict=True)}
    for column in beside:
        row = here.get(column)
        for value in values:
            cells[":".join((*column, value))] = (
                SheetCell(MISSING) if row is None else _cell(row, value, bases)
            )
        steps = row["figures"]["steps_measured"] if row else None
        cells[":".join((*column, "steps_measured"))] = SheetCell(number_text(steps, 0), steps)
        status = row["status"] if row else None
        cells[":".join((*column, "status"))] = SheetCell(status or MISSING, status)
    statuses = dict.fromkeys(row["status"] for row in here.values())
    names = [row["cell"] for row in here.values()]
    return Line("ours", ", ".join(statuses), cells, ", ".join(names))


def _value(row: Row, key: str) -> Any:
    """Return a figure, or a parallel size."""
    return parallel_size(row, key) if key.endswith("_parallel") else COLUMNS[key].value(row)


def _cell(row: Row, key: str, bases: Mapping[tuple[str, str], Row]) -> SheetCell:
    value = _value(row, key)
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
        change = difference_of(value, _value(base, key))
    if change is not None:
        text += f" ({change_text(change)})"
        text += DOUBTFUL if compared and compared["note"] else ""
    if key == "samples_per_s":
        text += signs(row)
    printed = published_figure(row, key)
    if printed is not None:
        text += f" [published {printed:.10g}]"
    return SheetCell(text, value, change)
