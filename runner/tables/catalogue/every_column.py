"""All columns, and the views of them that tables, pages and comparisons ask for.

A new figure is one entry in the module of its topic. CSV and JSON have the entries in this order.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from runner.tables.catalogue.column import Column
from runner.tables.catalogue.compared_columns import baseline, published
from runner.tables.catalogue.cost_columns import COST
from runner.tables.catalogue.device_columns import LOAD
from runner.tables.catalogue.expect_columns import EXPECTED
from runner.tables.catalogue.goodput_columns import GOODPUT
from runner.tables.catalogue.settings_columns import (
    BATCH,
    DEVICES,
    OUTCOME,
    SHORT,
    axes,
    size,
    sizes,
)
from runner.tables.catalogue.speed_columns import FLOPS, SPEED
from runner.tables.catalogue.training_columns import (
    EXPERTS,
    LOSSES,
    MEMORY_USE,
    SCALING,
    START,
    STEPS,
    TARGET,
)
from runner.tables.row import Row

_MEASURED = (
    *SPEED,
    *FLOPS,
    *LOAD,
    *TARGET,
    *START,
    *EXPERTS,
    *MEMORY_USE,
    *LOSSES,
    *STEPS,
    *SCALING,
    *GOODPUT,
)
# What cells are compared in unless told otherwise, to the percent by which it may differ.
THRESHOLDS: Mapping[str, float] = {
    column.key: limit for column in _MEASURED if (limit := column.threshold_percent) is not None
}
COMPARED = tuple(THRESHOLDS)
_EVERY = (
    *OUTCOME,
    *DEVICES,
    *BATCH,
    *SHORT,
    *_MEASURED,
    *baseline([column for column in _MEASURED if column.key in COMPARED]),
    *published(_MEASURED),
    *EXPECTED,
    *COST,
)
COLUMNS: Mapping[str, Column] = {column.key: column for column in _EVERY}
# What may be called worse or better from one campaign to another.
JUDGED: Mapping[str, Column] = {key: column for key, column in COLUMNS.items() if column.better}


def column(key: str) -> Column:
    """Return the column of a machine name, sizes included. Raises KeyError for an unknown name."""
    return size(key) if key.endswith("_parallel") else COLUMNS[key]


def value(row: Row, key: str) -> Any:
    """Return the row's value in a machine column. Raises KeyError for an unknown name."""
    of = column(key).value
    if of is None:
        raise KeyError(key)
    return of(row)


def for_machines(table: Sequence[Row]) -> list[Column]:
    """Return the columns of CSV and JSON; those of a baseline or of documents only where the
    table has one.
    """
    chosen = [c for c in _EVERY if c.value and (c.machine_if is None or c.machine_if(table))]
    at = chosen.index(BATCH[0])
    return [*chosen[:at], *sizes(table), *chosen[at:]]


def asked_for(table: Sequence[Row]) -> list[Column]:
    """Return the columns of what was asked for, with the parallel sizes."""
    return [*DEVICES, *sizes(table), *BATCH]


def for_people(table: Sequence[Row]) -> list[Column]:
    """Return every column for people, in order; `select_columns` leaves out and folds."""
    chosen = [c for c in _EVERY if c.place and (c.people_if is None or c.people_if(table))]
    return sorted((*chosen, *axes(table)), key=attrgetter("place"))


def machine_names(table: Sequence[Row]) -> list[str]:
    """Return the names of all columns for machines, whether the table has them or not."""
    return [*(c.key for c in _EVERY if c.value), *(c.key for c in sizes(table))]


def missing(row: Row) -> Mapping[str, str]:
    """Return why columns of a row are null: machine name to reason."""
    return {c.key: why for c in _EVERY if c.value and (why := c.why_missing(row))}


def title(key: str) -> str:
    """Return what people call a column, on one line; its machine name where it has no title."""
    column = COLUMNS.get(key)
    return column.one_line_title if column and column.title else key


def notes(columns: Sequence[Column], table: Sequence[Row]) -> Iterator[str]:
    """Yield what a reader must know of these columns; what several say, once."""
    functions: list[object] = []
    for noted_column in columns:
        if noted_column.note and noted_column.note not in functions:
            functions.append(noted_column.note)
            yield from noted_column.notes(table)
