"""How far a campaign is, read from its folder alone: for another terminal, or the day after."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from runner.base.escapes import TerminalLine, plain
from runner.base.text import some
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch.live import left_s
from runner.launch.picture import Going, Picture, lasting
from runner.launch.view import going_of, hosts_of, titled
from runner.matrix.select import in_order
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell

MOST_NEXT = 100  # repeats that did not begin, of which JSON has the names
_DRAWN = frozenset(field.name for field in fields(Going)) - {"title"}


@dataclass(frozen=True)
class Running:
    """A run that goes on now, at its newest step; `hosts` are its nodes by rank.

    None is not known (yet). `left_s` is a guess by the time of a step.
    """

    cell: str
    repeat: int
    attempt: int
    elapsed_s: float
    folder: str
    hosts: tuple[str, ...] = ()
    iteration: int | None = None
    train_iters: int | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    memory_used_mib: float | None = None
    left_s: float | None = None
    memory_rss_mib: float | None = None

    @property
    def going(self) -> Going:
        """Draw it as bench does."""
        title = titled(self.cell, self.repeat)
        known = {key: value for key, value in vars(self).items() if key in _DRAWN}
        return Going(title, **known)


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
    folder: str
    words: str = ""


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
    next: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what `status --format json` prints: numbers, and no sentence of ours."""
        content: dict[str, Any] = {"schema": 1, **asdict(self)}
        for one in content["queued"]:
            del one["words"]
        content["next"] = content["next"][:MOST_NEXT]
        return dict(plain(content))

    @property
    def picture(self) -> Picture:
        """Draw it as bench does."""
        first = self.queued[0] if self.queued else None
        return Picture(
            campaign=self.campaign,
            runs=self.runs,
            ended=sum(self.ended.values()),
            not_ok=len(self.not_ok),
            left_s=self.left_s,
            going=tuple(run.going for run in self.runs_now),
            queued=len(self.queued),
            first_queued=f"{_title(first)}: {first.words}" if first else "",
            next=self.next,
        )

    def words(self) -> str:
        """Say the same for a person."""
        ended = sum(self.ended.values())
        state = "a bench runs it" if self.live else "no bench runs it"
        lines = [f"campaign {self.campaign}: {ended} of {self.runs} runs ended, {state}"]
        lines += [f"  {count} {status}" for status, count in self.ended.items()]
        for now in self.runs_now:
            where = f"on {some(now.hosts)}; {now.folder}" if now.hosts else now.folder
            lines.append(f"now: {_title(now)}: {now.going.words}  ({where})")
        for one in self.queued:
            lines.append(f"job {one.job_id}: {_title(one)}: {one.words}  ({one.folder})")
        if (self.runs_now or self.queued) and not self.live:
            lines.append("the same bench command follows what runs and waits, and records its end")
        if self.left_s is not None:
            lines.append(f"campaign: {lasting(self.left_s)}")
        lines += [f"{status}: {cell}: {reason}" for cell, status, reason in self.not_ok]
        return "\n".join(map(TerminalLine, lines))


def _title(one: Running | Waiting) -> str:
    return titled(one.cell, one.repeat)


def look(campaign: Campaign) -> Status:
    """Read a campaign's folder."""
    live, unended = campaign.is_locked(), campaign.running()
    settings = campaign.settings
    asked = list(campaign.asked())
    cells = {(cell.id, repeat): cell for cell, repeat in asked}
    ended: Counter[str] = Counter()
    not_ok, times, untouched = [], [], set()
    for cell, repeat in asked:
        attempts = campaign.attempts(cell.id, repeat)
        outcome = attempts[-1].outcome if attempts else None
        if not attempts:
            untouched.add((cell.id, repeat))
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
        run = _running(attempt, cell)
        now.append(run)
        far.append((run.left_s, run.elapsed_s))
    numbers = sorted({repeat for _, repeat in asked})
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
        next=tuple(
            titled(cell.name, repeat)
            for cell, repeat in in_order(settings.cells, numbers, settings.shuffle_seed)
            if (cell.id, repeat) in untouched
        ),
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


def _running(attempt: Attempt, cell: Cell) -> Running:
    where = f"{names.CAMPAIGN}: cell {cell.name}"
    parameters = load_system(cell.system).recorded(cell.parameters, where)
    elapsed_s = max(0.0, time.time() - attempt.planned_at)
    going = going_of("", replace(cell, parameters=parameters), attempt, elapsed_s)
    known = {key: value for key, value in vars(going).items() if key in _DRAWN}
    known |= {"elapsed_s": round(going.elapsed_s, 1), "hosts": hosts_of(attempt)}
    return Running(
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        folder=str(attempt.path),
        **known,
    )
