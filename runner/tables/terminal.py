"""The table for terminals: as wide as the terminal, less important columns given up for that."""

from collections.abc import Sequence
from dataclasses import replace

from node.printable import printable
from runner.base.grid import GAP, aligned, filled
from runner.tables.catalogue.column import Column
from runner.tables.footnotes import fewer_notes, notes
from runner.tables.row import Row
from runner.tables.selection import alignment, problems, select_columns

SHORT_NAME = 12  # letters of a cell's name that a number would save too little of
# A cell's name says its axes, which have columns: where it has no room, a number stands for it, by
# which the notes speak. That is so once columns of this worth would have to go for the name.
WORTH_OF_NAMES = 400
NUMBERED = "#: the row's number, by which notes name its cell (--format markdown has the names)."
_TELL_APART = ("campaign", "cell", "system", "nodes_x_devices", "parallel", "batch")


def to_table(table: Sequence[Row], width: int = 120, most_notes: int | None = None) -> str:
    """Write the table for terminals, `width` columns wide when it can be.

    What all rows share stands above it; columns it gave up for the width are named below, where
    notes are those of the columns left: `most_notes` of them, and how many more there are.
    """
    if not table:
        return "no cells\n"
    chosen = select_columns(table)
    columns = _fitting(table, chosen.columns, width)
    labelled = table if any(column.key == "cell" for column in columns) else _numbered(table)
    dropped = [
        column.one_line_title
        for column in chosen.columns
        if column not in columns and not _alike(table, column)
    ]
    below = [
        *([NUMBERED] if labelled is not table else []),
        *problems(labelled),
        *fewer_notes(list(notes(labelled, {column.key for column in columns})), most_notes),
    ]
    if dropped:
        which = ", ".join(dropped) if most_notes is None else f"{len(dropped)} columns"
        below.append(
            f"Left out to fit {width} columns: {which} (--format markdown and csv show all)."
        )
    common = dict(chosen.common)
    for column in chosen.columns:
        if column not in columns and _alike(table, column):
            common[column.one_line_title] = column.text(table[0])
    shared = ", ".join(f"{name} {value}" for name, value in common.items())
    lines = [filled(f"common: {shared}", width), ""] if shared else []
    lines += [_grid(table, columns), "", *(filled(line, width) for line in below)]
    return "\n".join(lines).rstrip() + "\n"


def _numbered(table: Sequence[Row]) -> list[Row]:
    """Call each row by its number, as the column that stands for the names does."""
    return [
        replace(row, records=tuple(replace(record, cell=f"#{number}") for record in row.records))
        for number, row in enumerate(table, 1)
    ]


def _fitting(table: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """Choose the columns that fit `width`: those of less worth are given up first.

    First go those that are alike in all rows, which then stand above the table. A column without
    which two rows would read alike is not given up. Where the cells' names have
    no room, their numbers take less.
    """
    fitting = _worthiest(table, columns, width)
    unnamed = [column for column in columns if column.key != "cell"]
    dropped = [column for column in columns if column not in fitting]
    told_apart = _distinct(table, unnamed) == _distinct(table, columns)
    long = max(len(printable(row.cell)) for row in table) > SHORT_NAME
    if all((column.worth or 0) < WORTH_OF_NAMES for column in dropped) or not (long and told_apart):
        return fitting
    numbers = {id(row): str(number) for number, row in enumerate(table, 1)}
    number = Column("number", title="#", shown=lambda row: numbers[id(row)])
    return _worthiest(table, [number, *unnamed], width)


def _worthiest(table: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """Give columns up in their order until the rest fits `width`."""
    wide = {
        column.key: max(
            len(line)
            for text in (column.title, *(column.text(row) for row in table))
            for line in text.split("\n")
        )
        for column in columns
    }
    names, kept_columns = _distinct(table, columns), list(columns)
    loose = [column for column in columns if column.worth is not None]
    least_first = sorted(loose, key=lambda c: (not _alike(table, c), c.worth))
    for given_up in least_first:
        if sum(wide[column.key] + GAP for column in kept_columns) - GAP <= width:
            break
        fewer = [column for column in kept_columns if column is not given_up]
        if _distinct(table, fewer) == names:
            kept_columns = fewer
    return kept_columns


def _distinct(table: Sequence[Row], columns: Sequence[Column]) -> int:
    """Return how many rows have names and axes of their own."""
    tell = [column for column in columns if tells_apart(column)]
    return len({tuple(column.text(row) for column in tell) for row in table})


def tells_apart(column: Column) -> bool:
    """Whether it shows what a cell is, and not how it was measured or judged."""
    return column.key in _TELL_APART or column.key.startswith("axis_")


def _alike(table: Sequence[Row], column: Column) -> bool:
    """Whether it has one text in all of several rows."""
    return len(table) > 1 and len({column.text(row) for row in table}) == 1


def _grid(table: Sequence[Row], columns: Sequence[Column]) -> str:
    """Draw the header, a rule and the rows. The header is a row: real ones would be padded."""
    headers = [column.title for column in columns]
    text = aligned(
        [headers, *([column.text(row) for column in columns] for row in table)],
        "plain",
        align=alignment(columns),
        row_align=["bottom", *("top" for _ in table)],
    )
    lines = text.splitlines()
    height = max(header.count("\n") for header in headers) + 1
    return "\n".join([*lines[:height], "-" * max(map(len, lines)), *lines[height:]])
