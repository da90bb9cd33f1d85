"""Which cells a matrix with `repeats: {until: ...}` repeats once more, by what is on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runner.base.errors import UserError
from runner.figures.enough import Enough, enough
from runner.folder.campaign import Campaign
from runner.load.records import record_of
from runner.matrix.select import in_order
from runner.terms.cell import Cell, Matrix
from runner.terms.record import Record


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
