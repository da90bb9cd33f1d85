"""How long a run took, and how long it was queued."""

from dataclasses import replace

from runner.folder import names
from runner.folder.attempt import Attempt, written_at
from runner.terms.outcome import Outcome

_SIGNS = (names.LOG, names.DONE)  # of life, of a node


def timed(ended: Outcome, attempt: Attempt, began: float, took_s: float) -> Outcome:
    """Add when a run began and how long it took: by our clock, unless it was handed over.

    Then its files' times tell, which the clock of one file system gives: what it was queued for is
    no part of what it took, and nobody need have watched.
    """
    if not attempt.handed_over:
        return replace(ended, started_at=began, wall_s=round(took_s, 3))
    planned_at, placed = attempt.planned_at, attempt.begun_at
    if placed is None:  # it never began
        return replace(ended, started_at=began, wall_s=0.0, queued_s=round(took_s, 3))
    over = written_at(attempt.path / names.ENDED)
    if over is None:
        files = [log.with_name(name) for log in attempt.logs().values() for name in _SIGNS]
        over = max((at for file in files if (at := written_at(file)) is not None), default=placed)
    return replace(
        ended,
        started_at=placed,
        wall_s=round(max(over - placed, 0.0), 3),
        queued_s=round(max(placed - planned_at, 0.0), 3),
    )
