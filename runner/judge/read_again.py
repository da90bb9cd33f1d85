"""How a run ended by the patterns that its matrix has today. Reads files, writes none."""

from dataclasses import replace
from typing import Any

from runner.folder.attempt import Attempt
from runner.folder.stored import UnreadableError
from runner.judge.judge import judged
from runner.terms.cell import OF_READING, Cell
from runner.terms.outcome import Outcome


def outcome_of(attempt: Attempt, cell: Cell) -> Outcome | None:
    """Return how an attempt ended; None while it has not.

    Its log is read again where the matrix's `cell` reads it in another way than the run was planned
    with: what the trainer did is the same, when it began and how long it took stays as recorded.
    """
    recorded = attempt.outcome
    if recorded is None or not reads_otherwise(attempt, cell):
        return recorded
    _, now = judged(attempt, cell, "")
    times = {name: getattr(recorded, name) for name in ("started_at", "wall_s", "queued_s")}
    return replace(now, **times)


def reads_otherwise(attempt: Attempt, cell: Cell) -> bool:
    """Whether the cell's patterns are others than those of the run."""
    try:
        run = attempt.run
    except UnreadableError:
        return False
    return run is not None and not run.imported and _reading(run.cell) != _reading(cell)


def _reading(cell: Cell) -> dict[str, Any]:
    return {key: value for key in OF_READING if (value := cell.parameters.get(key)) is not None}
