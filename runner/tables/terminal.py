"""The table for terminals: as wide as the terminal, less important columns given up for that."""

from collections.abc import Sequence

from runner.base.grid import GAP, aligned, filled
from runner.tables.columns import Column, alignment
from runner.tables.footnotes import notes
from runner.tables.row import Row
from runner.tables.selection import select_columns

# What a narrow table gives up, first to last; a column not named here always stays. A cell's name
# says its axes, which have columns; the other formats show every column.
_GIVEN_UP = (
    "samples_per_s_mean",
    "samples_per_s_cv_percent",
    "samples_per_s_per_device",
    "hardware_tflop_per_s_per_device",
    "hfu_percent",
    "log_tflop_per_s_per_device",
    "compile_cache",
    "compile_s",
    "time_to_first_step_s",
    "temperature_max_c",
    "mean_power_w",
    "step_time_ms_p95",
    "device",
    "cell",
    "samples_per_s_interval",
    "tokens_per_s",
    "warmup_iters",
    "repeats",
    "joules_to_target",
    "tokens_to_target",
    "target_reached",
    "parallel",
    "memory_used_mib_difference",
    "memory_allocated_mib_difference",
    "weak_scaling_efficiency",
    "strong_scaling_efficiency",
    "batch",
    "system",
    "published_utilisation_percent",
    "published_memory_used_mib",
    "utilisation_percent",
    "energy_per_token_j",
    "matmul_percent",
    "mfu_percent",
    "loss_parity",
    "learns",
    "seconds_to_target",
    "model_tflop_per_s_per_device",
    "memory_used_mib",
    "memory_allocated_mib",
    "samples_per_s_spread_percent",
    "step_time_ms",
    "final_loss",
    "iterations_to_target",
    "samples_per_s_difference",
)


def to_table(table: Sequence[Row], width: int = 120) -> str:
    """Write the table for terminals, `width` columns wide when it can be.

    What all rows share stands above it; columns it gave up for the width are named below, where
    notes are those of the columns left.
    """
    if not table:
        return "no cells\n"
    chosen = select_columns(table)
    shown = _fitting(table, chosen.columns, width)
    gone = [column.one_line_header for column in chosen.columns if column not in shown]
    below = [*chosen.problems, *notes(table, {column.key for column in shown})]
    if gone:
        below.append(
            f"Left out to fit {width} columns: {', '.join(gone)}"
            " (--format markdown and csv show all)."
        )
    shared = ", ".join(f"{name} {value}" for name, value in chosen.common.items())
    lines = [filled(f"common: {shared}", width), ""] if shared else []
    lines += [_grid(table, shown), "", *(filled(line, width) for line in below)]
    return "\n".join(lines).rstrip() + "\n"


def _fitting(table: Sequence[Row], columns: Sequence[Column], width: int) -> list[Column]:
    """Choose the columns that fit `width`: given up in order, then, last first, taken back if they
    fit.

    A column without which two rows would read alike is not given up.
    """
    wide = {
        column: max(
            len(line)
            for text in (column.header, *(column.text(row) for row in table))
            for line in text.split("\n")
        )
        for column in columns
    }

    def fit(shown: Sequence[Column]) -> bool:
        return sum(wide[column] + GAP for column in shown) - GAP <= width

    names = _distinct(table, columns)
    shown, gone = list(columns), []
    for column in sorted(
        (column for column in columns if column.key in _GIVEN_UP),
        key=lambda column: _GIVEN_UP.index(column.key),
    ):
        fewer = [other for other in shown if other is not column]
        if fit(shown):
            break
        if _distinct(table, fewer) == names:
            shown = fewer
            gone.append(column)
    for column in reversed(gone):
        more = [other for other in columns if other in shown or other is column]
        shown = more if fit(more) else shown
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
