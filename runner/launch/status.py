"""How far a campaign is, read from its folder alone: for another terminal, or the day after."""

import time
from collections import Counter
from dataclasses import replace

from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError
from runner.launch.campaign_status import Running, Status, Waiting, titled
from runner.launch.live import left_s
from runner.launch.times import timed
from runner.launch.view import hosts_of, running_of
from runner.matrix.select import in_order
from runner.results.judge import judged
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import WELL


def look(campaign: Campaign) -> Status:
    """Read a campaign's folder."""
    live, unended = campaign.is_locked(), campaign.running()
    settings = campaign.settings
    repeats = list(campaign.asked())
    cells = {(cell.id, repeat): cell for cell, repeat in repeats}
    ended: Counter[str] = Counter()
    not_ok, times, untouched = [], [], set()
    for cell, repeat in repeats:
        attempts = campaign.attempts(cell.id, repeat)
        outcome = _outcome(attempts[-1]) if attempts else None
        if not attempts:
            untouched.add((cell.id, repeat))
        if outcome is None:
            continue
        ended[outcome.status] += 1
        times.append(outcome.wall_s)
        if outcome.status not in WELL:
            not_ok.append((cell.name, outcome.status, outcome.reason))
    queued, now = [], []
    for attempt in unended:
        cell = cells[attempt.cell_id, attempt.repeat]
        if waiting := _waiting(attempt, cell):
            queued.append(waiting)
        else:
            now.append(_running(attempt, cell))
    far = [(run.left_s, run.elapsed_s) for run in now]
    numbers = sorted({repeat for _, repeat in repeats})
    waits = len(repeats) - sum(ended.values()) - len(now)
    return Status(
        campaign=campaign.name,
        live=live,
        runs=len(repeats),
        ended=dict(ended),
        not_ok=tuple(not_ok),
        left_s=left_s(times, waits, far, at_once=len(now)),
        runs_now=tuple(now),
        queued=tuple(queued),
        next=tuple(
            titled(cell.name, repeat)
            for cell, repeat in in_order(settings.cells, numbers, settings.shuffle_seed)
            if (cell.id, repeat) in untouched
        ),
    )


def _outcome(attempt: Attempt) -> Outcome | None:
    """Return how a run ended: as recorded, or of one that ended while no bench was there as its
    files say; None where it did not.
    """
    if attempt.outcome is not None or not attempt.over:
        return attempt.outcome
    try:
        run = attempt.run
    except UnreadableError:
        return None
    if run is None:
        return None
    _, ended = judged(attempt, run.cell, "")
    return timed(ended, attempt, attempt.planned_at, 0.0)


def _waiting(attempt: Attempt, cell: Cell) -> Waiting | None:
    """Return what the queue said of a run; None of one that goes on."""
    queued = attempt.queued
    reason = queued.words() if queued else ""
    if queued is None or not reason:
        return None
    return Waiting(
        title=titled(cell.name, attempt.repeat),
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        job_id=queued.job_id,
        state=queued.state,
        reason=queued.reason,
        position=queued.position,
        expected_start=queued.expected_start,
        asked_at=queued.asked_at,
        words=reason,
        folder=str(attempt.path),
    )


def _running(attempt: Attempt, cell: Cell) -> Running:
    where = f"{names.CAMPAIGN}: cell {cell.name}"
    parameters = load_system(cell.system).recorded(cell.parameters, where)
    elapsed_s = max(0.0, time.time() - attempt.planned_at)
    title = titled(cell.name, attempt.repeat)
    running = running_of(title, replace(cell, parameters=parameters), attempt, elapsed_s)
    return replace(running, hosts=hosts_of(attempt))
