"""How far a campaign is, read from its folder alone: for another terminal, or the day after."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner.base.escapes import TerminalLine
from runner.base.text import some
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.stored import UnreadableError
from runner.launch.live import Now, left_s, now_of
from runner.launch.view import lasting, progress, since
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell


@dataclass(frozen=True)
class Running:
    """A run that goes on now; `words` say how far it is, `hosts` are its nodes by rank."""

    cell: str
    repeat: int
    attempt: int
    elapsed_s: float
    words: str
    folder: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """A run that is queued, as the queue said last, when it was asked (epoch seconds)."""

    cell: str
    repeat: int
    attempt: int
    job_id: str
    state: str
    reason: str
    position: int | None
    expected_start: float | None
    asked_at: float
    words: str
    folder: str


@dataclass(frozen=True)
class Status:
    """A campaign as it stands: ended runs by status, those not ok by name, and what runs now.

    `running` is the first of `runs_now`. `left_s` is a guess: what the running ones say, and the
    median time of those that ended for each that did not begin.
    """

    campaign: str
    live: bool
    runs: int
    ended: Mapping[str, int]
    not_ok: tuple[tuple[str, str, str], ...]
    running: Running | None
    left_s: float | None
    runs_now: tuple[Running, ...] = ()
    queued: tuple[Waiting, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the object that `status --format json` prints."""
        return {"schema": 1, **asdict(self)}

    def words(self) -> str:
        """Say the same for a person."""
        ended = sum(self.ended.values())
        state = "a bench runs it" if self.live else "no bench runs it"
        lines = [f"campaign {self.campaign}: {ended} of {self.runs} runs ended, {state}"]
        lines += [f"  {count} {status}" for status, count in self.ended.items()]
        for now in self.runs_now:
            where = f"on {some(now.hosts)}; {now.folder}" if now.hosts else now.folder
            lines.append(f"now: {_title(now)}: {now.words}  ({where})")
        for one in self.queued:
            lines.append(f"job {one.job_id}: {_title(one)}: {one.words}  ({one.folder})")
        if (self.runs_now or self.queued) and not self.live:
            lines.append("the same bench command follows what runs and waits, and records its end")
        if self.left_s is not None:
            lines.append(f"campaign: {lasting(self.left_s)}")
        lines += [f"{status}: {cell}: {reason}" for cell, status, reason in self.not_ok]
        return "\n".join(map(TerminalLine, lines))


def _title(one: Running | Waiting) -> str:
    return one.cell + (f" repeat {one.repeat}" if one.repeat > 1 else "")


def look(campaign: Campaign) -> Status:
    """Read a campaign's folder."""
    live, unended = campaign.is_locked(), campaign.running()
    asked = list(campaign.settings.asked())
    cells = {(cell.id, repeat): cell for cell, repeat in asked}
    ended: Counter[str] = Counter()
    not_ok = []
    times = []
    for cell, repeat in asked:
        attempts = campaign.attempts(cell.id, repeat)
        outcome = attempts[-1].outcome if attempts else None
        if outcome is None:
            continue
        ended[outcome.status] += 1
        times.append(outcome.wall_s)
        if outcome.status != "ok":
            not_ok.append((cell.name, outcome.status, outcome.reason))
    queued, now, far = [], [], []
    for attempt in unended:
        cell = cells[attempt.cell_id, attempt.repeat]
        if waiting := _waiting(attempt, cell):
            queued.append(waiting)
            continue
        run, where = _running(attempt, cell)
        now.append(run)
        far.append((where.left_s, run.elapsed_s))
    waits = len(asked) - sum(ended.values()) - len(now)
    return Status(
        campaign=campaign.name,
        live=live,
        runs=len(asked),
        ended=dict(ended),
        not_ok=tuple(not_ok),
        running=now[0] if now else None,
        left_s=left_s(times, waits, far, at_once=len(now)),
        runs_now=tuple(now),
        queued=tuple(queued),
    )


def _waiting(attempt: Attempt, cell: Cell) -> Waiting | None:
    """Return what the queue said of a run; None of one that goes on."""
    queued = attempt.queued
    words = queued.words() if queued else ""
    if queued is None or not words:
        return None
    return Waiting(
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        job_id=queued.job_id,
        state=queued.state,
        reason=queued.reason,
        position=queued.position,
        expected_start=queued.expected_start,
        asked_at=queued.asked_at,
        words=words,
        folder=str(attempt.path),
    )


def _running(attempt: Attempt, cell: Cell) -> tuple[Running, Now]:
    elapsed_s = since(attempt, max(0.0, time.time() - attempt.planned_at))
    where = f"{names.CAMPAIGN}: cell {cell.name}"
    wanted = load_system(cell.system).recorded(cell.parameters, where).get("train_iters")
    now = now_of(cell, attempt, wanted)
    running = Running(
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        elapsed_s=round(elapsed_s, 1),
        words=progress(now, wanted, elapsed_s),
        folder=str(attempt.path),
        hosts=_hosts(attempt),
    )
    return running, now


def _hosts(attempt: Attempt) -> tuple[str, ...]:
    try:
        return tuple(attempt.hosts.values())
    except UnreadableError:
        return ()
