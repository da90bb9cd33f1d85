"""The cells of a matrix that `--only` names, and the order of their runs. Pure."""

import hashlib
from collections.abc import Sequence
from fnmatch import fnmatch

from runner.base.errors import UserError
from runner.terms.cell import Cell, Matrix


def select(matrix: Matrix, only: Sequence[str]) -> list[Cell]:
    """Select the cells whose readable name or id matches one of the globs; all of them
    without one.
    """
    if not only:
        return list(matrix.cells)
    chosen = [
        cell
        for cell in matrix.cells
        if any(fnmatch(cell.name, glob) or fnmatch(cell.id, glob) for glob in only)
    ]
    if not chosen:
        names = ", ".join(cell.name for cell in matrix.cells[:5])
        raise UserError(f"--only {' '.join(only)} matches no cell; cells are named like {names}")
    return chosen


def in_order(
    cells: Sequence[Cell], repeats: int, shuffle_seed: int | None = None
) -> list[tuple[Cell, int]]:
    """Return every repeat of the cells in the order of the runs: all cells once, then again.

    So a machine that grows slower does so for all cells alike. With a seed each round has an order
    of its own (randomised complete blocks). Two cells stand in it the same way whatever other cells
    were selected, since each is placed by a hash of its own.
    """

    def place(cell: Cell, repeat: int) -> str:
        return hashlib.sha256(f"{shuffle_seed}/{repeat}/{cell.id}".encode()).hexdigest()

    runs = []
    for repeat in range(1, repeats + 1):
        a_round = [(cell, repeat) for cell in cells]
        runs += a_round if shuffle_seed is None else sorted(a_round, key=lambda run: place(*run))
    return runs
