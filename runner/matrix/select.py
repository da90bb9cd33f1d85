"""The cells that `--only` names, of a matrix or a comparison, and the order of runs. Pure."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from typing import TypeVar

from runner.base.errors import UserError
from runner.terms.cell import Cell, Matrix

Item = TypeVar("Item")


def select(matrix: Matrix, only: Sequence[str]) -> list[Cell]:
    """Select the cells of a matrix; all of them without a glob. Raises UserError for none."""
    return choose(matrix.cells, only, lambda cell: (cell.name, cell.id))


def choose(
    cells: Sequence[Item],
    only: Sequence[str],
    names_of: Callable[[Item], tuple[str, str]],
    option: str = "--only",
) -> list[Item]:
    """Choose the cells that one of the globs matches; all of them without one.

    `names_of` gives a cell's readable name and its id. A glob matches one of the two as a whole,
    else one AXIS=VALUE of the name. Raises UserError, which names the `option`, where none matches.
    """
    if not only:
        return list(cells)
    names = list(map(names_of, cells))
    matching = {
        glob
        for glob in only
        if any(fnmatch(text, glob) for cell_names in names for text in cell_names)
    }
    chosen = [
        cell
        for cell, cell_names in zip(cells, names, strict=True)
        if any(
            fnmatch(text, glob)
            for glob in only
            for text in (cell_names if glob in matching else cell_names[0].split(","))
        )
    ]
    if not chosen:
        examples = ", ".join(name for name, _ in names[:5])
        command_text = " ".join((option, *only))
        raise UserError(f"{command_text} matches no cell; cells are named like {examples}")
    return chosen


def in_order(
    cells: Sequence[Cell], repeats: Iterable[int], shuffle_seed: int | None = None
) -> list[tuple[Cell, int]]:
    """Return these repeats of the cells in the order of the runs: all cells once, then again.

    So a machine that grows slower does so for all cells alike. With a seed each round has an order
    of its own (randomised complete blocks). Two cells are in the same order whatever other cells
    were selected, since each is placed by a hash of its own.
    """

    def sort_key(cell: Cell, repeat: int) -> str:
        return hashlib.sha256(f"{shuffle_seed}/{repeat}/{cell.id}".encode()).hexdigest()

    runs = []
    for repeat in repeats:
        a_round = [(cell, repeat) for cell in cells]
        runs += a_round if shuffle_seed is None else sorted(a_round, key=lambda run: sort_key(*run))
    return runs
