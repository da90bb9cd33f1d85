"""Runs that a bench left unjudged, since it was killed: how they ended is recorded by the next one.

A run that is still in a queue, or goes on without its bench, is followed instead.
"""

from collections.abc import Iterable

from node.causes import Cause
from runner.folder import names
from runner.folder.attempt import Attempt, written_at
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError, write_json
from runner.launch.engine import Engine
from runner.launch.times import timed
from runner.results.judge import judged
from runner.terms.cell import Cell

KILLED = "the bench that ran it was killed, or its machine went down"


def record_abandoned(
    engine: Engine, campaign: Campaign, repeats: Iterable[tuple[Cell, int]]
) -> None:
    """Write the outcome of each repeat's last attempt that nobody judged and that does not go on.

    Raises UserError where the engine cannot be asked whether it goes on.
    """
    for cell, repeat in repeats:
        for attempt in campaign.attempts(cell.id, repeat)[-1:]:
            if attempt.unended and not engine.goes_on(attempt):
                _record(attempt)


def _record(attempt: Attempt) -> None:
    try:
        run = attempt.run
        if run is None:
            return
        if len(attempt.endings()) < len(attempt.hosts):  # and have its nodes end, if any goes on
            attempt.ask_to_halt(Cause.CONTROL_LOST, KILLED)
        began = attempt.planned_at
        log_times = [at for log in attempt.logs().values() if (at := written_at(log)) is not None]
    except UnreadableError:  # its row says so
        return
    _, outcome = judged(attempt, run.cell, KILLED)
    ended = timed(outcome, attempt, began, max(0.0, max(log_times, default=began) - began))
    write_json(attempt.path / names.OUTCOME, ended.to_json())
