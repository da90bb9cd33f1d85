"""Which runs of a campaign come next, by what is on disk.

Those of its matrix, and with `repeats: {until: ...}` one more of each cell that is not known well
enough.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from runner.base.errors import UserError
from runner.base.text import counted
from runner.figures.cell_statistics import Enough, enough
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch.engine import Wanted
from runner.matrix.select import in_order
from runner.results.records import record_of
from runner.terms.cell import Cell, Matrix
from runner.terms.record import Record
from runner.terms.run import Run

Repeat = tuple[Cell, int]


class RunSource(Protocol):
    """Says which runs of a campaign come next. `matrix` has the cells with their folders' ids."""

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the repeats that run whatever comes out, and those that were made before."""

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the next repeats, by what is on disk; none: it is over."""

    def said(self, todo: Sequence[Repeat]) -> str:
        """Return a line for people on what `more` returned."""

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Return what the engine holds nodes for, and the cells that they must be ready for."""

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """Look at a run while it goes on."""


@dataclass(frozen=True)
class Repeating:
    """The runs of a matrix, `repeats` or `seeds` of each cell, or until samples/s is known."""

    time_limit_s: float
    until: bool = False

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """Do as RunSource's."""
        return begun(campaign, matrix, cells)

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """Do as RunSource's."""
        return once_more(campaign, matrix, cells)

    def said(self, todo: Sequence[Repeat]) -> str:
        """Do as RunSource's."""
        return f"one more run of {counted(len(todo), 'cell')}: samples/s varies"

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Do as RunSource's."""
        # A cell that is known well enough may vary too much when others were repeated: all.
        cells_asked = list(cells) if self.until else [cell for cell, _ in todo]
        return Wanted(cells_asked, self.time_limit_s), cells_asked

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """Do as RunSource's."""
        return nullcontext()


def begun(campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[tuple[Cell, int]]:
    """List the repeats that run whatever comes out, and those that an earlier bench began."""
    first = matrix.first_numbers
    runs = in_order(cells, matrix.numbers, matrix.shuffle_seed)
    return [
        (cell, number)
        for cell, number in runs
        if number in first or campaign.attempts(cell.id, number)
    ]


def once_more(campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[tuple[Cell, int]]:
    """List the next repeat of each cell that is not known well enough, and may have one."""
    wanted = {cell.id for cell, judged in known(campaign, matrix, cells) if not judged.met}
    following = []
    for number in matrix.numbers:
        of_round = [
            cell for cell in cells if cell.id in wanted and not campaign.attempts(cell.id, number)
        ]
        wanted -= {cell.id for cell in of_round}
        following += in_order(of_round, [number], matrix.shuffle_seed)
    return following


def known(
    campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]
) -> Iterator[tuple[Cell, Enough]]:
    """Yield how well each cell is known; nothing of a matrix that repeats by number."""
    if matrix.until_percent is None:
        return
    for cell in cells:
        yield cell, enough(_records(campaign, matrix, cell), matrix.until_percent)


def _records(campaign: Campaign, matrix: Matrix, cell: Cell) -> list[Record]:
    """Read a cell's runs as this matrix counts them, which campaign.json may not hold yet."""
    records = []
    for number in matrix.numbers:
        for attempt in campaign.attempts(cell.id, number)[-1:]:
            try:
                record = record_of(attempt, campaign)
            except UserError:  # unreadable: bench has said so, and it tells nothing
                continue
            until, warmup = matrix.until_percent, matrix.warmup_iters
            records.append(replace(record, until_percent=until, warmup_iters=warmup))
    return records
