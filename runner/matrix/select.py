"""The cells of a matrix that `--only` names. Pure."""

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
