"""The table for terminals: as wide as the terminal, less important columns given up for that."""

from collections.abc import Sequence
from dataclasses import replace

from node.printable import printable
from runner.base.grid import GAP, aligned, filled
from runner.tables.columns import Column, alignment
from runner.tables.footnotes import fewer_notes, notes
from runner.tables.row import Row
from runner.tables.selection import problems, select_columns
from runner.terms.memory import MEMORY

SHORT_NAME = 12  # letters of a cell's name that a number would save too little of
# What a narrow table gives up, first to last: each is worth less than those below it. A column not
# named here always stays. A cell's name says its axes, which have columns: where it has no room, a
# number stands for it, by which the notes speak. The other formats show every column.
_GIVEN_UP = (
    "samples_per_s_median",
    "compile_cache",
    "compile_s",
    "hardware_tflop_per_s_per_device",
    "hfu_percent",
    "log_tflop_per_s_per_device",
    "samples_per_s_per_device",
    "temperature_max_c",
    "mean_power_w",
    "step_time_ms_p95",
    "device",
    "time_to_first_step_s",
    "samples_per_s_cv_percent",
    "tokens_per_s",
    "warmup_iters",
    "joules_to_target",
    "tokens_to_target",
    "seconds_to_validation_target",
    "target_reached",
    *(f"{figure}_difference" for figure in reversed(tuple(MEMORY))),
    "parallel",
    "batch",
    "system",
    "published_utilisation_percent",
    "published_memory_used_mib",
    "utilisation_percent",
    "energy_per_token_j",
    "weak_scaling_efficiency",
    "strong_scaling_efficiency",
    "repeats",
    "matmul_percent",
    "mfu_percent",
    "samples_per_s_spread_percent",
    "stalls_percent",
)
_WORTH_MORE_THAN_NAMES = (
    "loss_parity",
    "learns",
    "seconds_to_target",
    "model_tflop_per_s_per_device",
    *MEMORY,
    "step_time_ms",
    "samples_per_s_interval",
    "final_loss",
    "iterations_to_validation_target",
    "iterations_to_target",
    "samples_per_s_difference",
)


def to_table(table: Sequence[Row], width: int = 120, most_notes: int | None = None) -> str:
    """Write the table for terminals, `width` columns wide when it can be.

    What all rows share stands above it; columns it gave up for the width are named below, where
    notes are those of the columns left: `most_notes` of them, and how many more there are.
    """
    if not table:
        return "no cells\n"
    chosen = select_columns(table)
    shown = _fitting(table, chosen.columns, width)
    named = table if any(column.key == "cell" for column in shown) else _numbered(table)
    gone = [column.one_line_header for column in chosen.columns if column not in shown]
    below = [
        *problems(named),
        *fewer_notes(list(notes(named, {column.key for column in shown})), most_notes),
    ]
    if gone:
        which = ", ".join(gone) if most_notes is None else f"{len(gone)} columns"
        below.append(
            f"Left out to fit {width} columns: {which} (--format markdown and csv show all)."
        )
    shared = ", ".join(f"{name} {value}" for name, value in chosen.common.items())
    lines = [filled(f"common: {shared}", width), ""] if shared else []
    lines += [_grid(table, shown), "", *(filled(line, width) for line in below)]
    return "\n".join(lines).rstrip() + "\n"


def _numbered(table: Sequence[Row]) -> list[Row]:
    """Call each row by its number, as the column that stands for the names does."""
    return [
        replace(row, records=tuple(replace(record, cell=f"#{number}") for record in row.records))
        for number, row in enumerate(table, 1)
    ]


def _fitting(table: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """Choose the columns that fit `width`: those of less worth are given up first.

    A column without which two rows would read alike is not given up. Where the cells' names have
    no room, their numbers take less.
    """
    shown = _worthiest(table, columns, width)
    others = [column for column in columns if column.key != "cell"]
    gone = {column.key for column in columns} - {column.key for column in shown}
    told_apart = _distinct(table, others) == _distinct(table, columns)
    long = max(len(printable(row.cell)) for row in table) > SHORT_NAME
    if gone.isdisjoint(_WORTH_MORE_THAN_NAMES) or not (long and told_apart):
        return shown
    numbers = {id(row): str(number) for number, row in enumerate(table, 1)}
    return _worthiest(table, [Column("number", "#", lambda row: numbers[id(row)]), *others], width)


def _worthiest(table: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """Give columns up in their order until the rest fits `width`."""
    wide = {
        column.key: max(
            len(line)
            for text in (column.header, *(column.text(row) for row in table))
            for line in text.split("\n")
        )
        for column in columns
    }
    names, shown = _distinct(table, columns), list(columns)
    for key in (*_GIVEN_UP, *_WORTH_MORE_THAN_NAMES):
        if sum(wide[column.key] + GAP for column in shown) - GAP <= width:
            break
        fewer = [column for column in shown if column.key != key]
        if _distinct(table, fewer) == names:
            shown = fewer
    return shown


def _distinct(table: Sequence[Row], columns: Sequence[Column]) -> int:
    """Say how many rows can be told apart by their names and settings."""
    tell = [column for column in columns if column.key == "cell" or column.kind == "setting"]
    return len({tuple(column.text(row) for column in tell) for row in table})


def _grid(table: Sequence[Row], columns: Sequence[Column]) -> str:
    """Draw the header, a rule and the rows. The header is a row: real ones would be padded."""
    headers = [column.header for column in columns]
    text = aligned(
        [headers, *([column.text(row) for column in columns] for row in table)],
        "plain",
        align=alignment(columns),
        row_align=["bottom", *("top" for _ in table)],
    )
    lines = text.splitlines()
    height = max(header.count("\n") for header in headers) + 1
    return "\n".join([*lines[:height], "-" * max(map(len, lines)), *lines[height:]])
