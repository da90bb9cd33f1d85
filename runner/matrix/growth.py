"""A campaign that ran, and the matrix as it is today: what is kept, new and hidden. Pure.

A cell is what it runs, not what it is called: one that has a second axis by now, or another name,
keeps its folder. What the matrix names no more is hidden, and comes back when it names it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.base.errors import UserError
from runner.systems.common.registry import load_system
from runner.terms.cell import MOST_CELLS, MOST_REPEATS, OF_READING, AskedCell, Cell, Matrix
from runner.terms.settings import Settings


@dataclass(frozen=True)
class Growth:
    """A campaign with today's matrix: what campaign.json is to hold, and what bench is to run.

    The cells of `matrix` have the ids of their folders; it knows all repeats that there ever were.
    """

    settings: Settings
    matrix: Matrix


def grown(was: Settings, matrix: Matrix, ran: Mapping[str, int]) -> Growth:
    """Take the matrix into a campaign whose cells `ran` (id to the last repeat that did).

    Raises UserError where a campaign cannot hold all of that.
    """
    recorded_cells = _recorded((*was.cells, *was.hidden), matrix.cells)
    ids = {cell.id for cell in recorded_cells.values()}
    hidden = [c for c in (*was.cells, *was.hidden) if c.id not in ids and c.id in ran]
    if len(matrix.cells) + len(hidden) > MOST_CELLS:
        raise _full(was, matrix, f"{MOST_CELLS} cells")
    repeats, seeds, left_out = _repeats(was, matrix, max(ran.values(), default=0))
    asked_cells, cells = [], []
    for cell in matrix.cells:
        there = recorded_cells.get(cell.digest)
        asked_cells.append(
            replace(there, name=cell.name, axes=cell.axes, parameters=_read_as(there, cell))
            if there is not None
            else AskedCell(**vars(cell))
        )
        cells.append(replace(cell, id=asked_cells[-1].id))
    settings = replace(
        was,
        **changeable(matrix),
        repeats=repeats,
        seeds=seeds,
        left_out=left_out,
        cells=tuple(asked_cells),
        hidden=tuple(hidden),
    )
    grown_matrix = replace(
        matrix, cells=tuple(cells), repeats=repeats, seeds=seeds, left_out=left_out
    )
    return Growth(settings, grown_matrix)


def _read_as(there: Cell, cell: Cell) -> dict[str, Any]:
    """Return a recorded cell's parameters, with how the matrix reads its log by now."""
    parameters = {key: value for key, value in there.parameters.items() if key not in OF_READING}
    return parameters | {key: cell.parameters[key] for key in OF_READING if key in cell.parameters}


def changeable(matrix: Matrix) -> dict[str, Any]:
    """Return what campaign.json has of a matrix that may change while its runs stay as they are."""
    return {
        "matrix": matrix.text,
        "baseline": matrix.baseline,
        "title": matrix.title,
        "description": matrix.description,
        "warmup_iters": matrix.warmup_iters,
        "table": dict(matrix.layout),
        "published": tuple(matrix.published),
        "target_loss": matrix.target_loss,
        "shuffle_seed": matrix.shuffle_seed,
        "until_percent": matrix.until_percent,
        "tuned": matrix.tune is not None or matrix.searched,
    }


def _recorded(there: Sequence[AskedCell], cells: Sequence[Cell]) -> dict[str, AskedCell]:
    """Map the digest of each cell that a campaign has to the campaign's own, as recorded.

    One of an older version is the same where it is so as this version reads it.
    """
    recorded = {cell.digest: cell for cell in reversed(there)}
    unchanged = {cell.digest: recorded[cell.digest] for cell in cells if cell.digest in recorded}
    ids = {cell.id for cell in unchanged.values()}
    older = {_read(cell).digest: cell for cell in reversed(there) if cell.id not in ids}
    new = [cell.digest for cell in cells if cell.digest not in unchanged]
    return unchanged | {digest: older[digest] for digest in new if digest in older}


def _read(cell: AskedCell) -> AskedCell:
    """Return a recorded cell with the parameters that this version knows, where it knows it."""
    try:
        system = load_system(cell.system)
        parameters = system.recorded(cell.parameters, f"cell {cell.name}")
    except UserError:
        return cell
    return replace(cell, parameters=parameters)


def _repeats(
    was: Settings, matrix: Matrix, last_repeat: int
) -> tuple[int, tuple[int | None, ...], tuple[int, ...]]:
    """Find each repeat of the matrix among those that there were, by its seed, or add it.

    Returns how many there are by now, their seeds if any has one, and those that are not asked for.
    """
    there: list[int | None] = list((was.seeds or (None,) * was.repeats)[:last_repeat])
    free = list(range(len(there)))
    numbers = []
    for seed in matrix.seeds or (None,) * matrix.repeats:
        number_taken = next((number for number in free if there[number] == seed), None)
        if number_taken is None:
            number_taken = len(there)
            there.append(seed)
        else:
            free.remove(number_taken)
        numbers.append(number_taken)
    if len(there) > MOST_REPEATS:
        raise _full(was, matrix, f"{MOST_REPEATS} repeats of a cell")
    seeds = () if all(seed is None for seed in there) else tuple(there)
    return len(there), seeds, tuple(number + 1 for number in free)


def _full(was: Settings, matrix: Matrix, most: str) -> UserError:
    return UserError(
        f"campaign {was.matrix_name or matrix.name} would have more than {most}, counting"
        " results already removed from the matrix; give the matrix another `name:`"
    )
