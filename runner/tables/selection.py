"""What people are shown of a table: its columns, what all rows share, and the lines below it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from node.printable import printable
from runner.tables.columns import Column, columns
from runner.tables.footnotes import notes
from runner.tables.formatting import MISSING
from runner.tables.row import Row

# Texts by which a column says nothing.
_NOTHING = {
    "steps_skipped": {"0"},
    "steps_nan": {"0"},
    "repeats": {"1/1"},
    "loss_parity": {"same", "baseline"},  # a note says it
    "learns": {"baseline"},
}
# Decided by what the runs logged: an unfinished run, marked as one, is no difference.
_LOGGED = frozenset({"window", "warmup_iters", "flop_vocab_size", "verdict"})


@dataclass(frozen=True)
class Selection:
    """The columns left, what all rows share, cells that are not ok, and what to know."""

    columns: tuple[Column, ...]
    common: Mapping[str, str]
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def select_columns(table: Sequence[Row]) -> Selection:
    """Choose the columns: fold what all rows share, leave out what no row has."""
    kept: list[Column] = []
    common: dict[str, str] = {}
    for column in columns(table):
        texts = {column.text(row) for row in table if row.finished or column.key not in _LOGGED}
        if column.key in _LOGGED:
            texts -= {MISSING}
        if column.kind == "setting" and len(texts) <= 1:
            for text in texts - {MISSING}:
                common[column.one_line_header] = text
        elif not texts <= {MISSING} | _NOTHING.get(column.key, set()):
            kept.append(column)
    return Selection(
        columns=tuple(kept),
        common=common,
        problems=tuple(problems(table)),
        notes=tuple(notes(table)),
    )


def problems(table: Sequence[Row]) -> list[str]:
    """Say of each row that is not ok how it ended, and why."""
    return [
        f"{printable(row.cell)}: {row.status}: {printable(row.reason)}"
        for row in table
        if row.status != "ok"
    ]
