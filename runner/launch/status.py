"""How far a campaign is, read from its folder alone: for another terminal, or the day after."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner.base.escapes import TerminalLine
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch.live import Now, left_s, now_of
from runner.launch.view import lasting, progress
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell


@dataclass(frozen=True)
class Running:
    """The run that goes on now; `words` say how far it is."""

    cell: str
    repeat: int
    attempt: int
    elapsed_s: float
    words: str
    folder: str


@dataclass(frozen=True)
class Status:
    """A campaign as it stands: ended runs by status, those not ok by name, and what runs now.

    `left_s` is a guess: what the running one says, and the median time of those that ended for each
    that did not begin.
    """

    campaign: str
    live: bool
    runs: int
    ended: Mapping[str, int]
    not_ok: tuple[tuple[str, str, str], ...]
    running: Running | None
    left_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `status --format json` prints."""
        return {"schema": 1, **asdict(self)}

    def words(self) -> str:
        """Say the same for a person."""
        ended = sum(self.ended.values())
        state = "a bench runs it" if self.live else "no bench runs it"
        lines = [f"campaign {self.campaign}: {ended} of {self.runs} runs ended, {state}"]
        lines += [f"  {count} {status}" for status, count in self.ended.items()]
        if self.running:
            now = self.running
            lines.append(f"now: {now.cell}: {now.words}  ({now.folder})")
        if self.left_s is not None:
            lines.append(f"campaign: {lasting(self.left_s)}")
        lines += [f"{status}: {cell}: {reason}" for cell, status, reason in self.not_ok]
        return "\n".join(map(TerminalLine, lines))


def look(campaign: Campaign) -> Status:
    """Read a campaign's folder."""
    live, now_running = campaign.is_locked(), campaign.running()
    asked = list(campaign.settings.asked())
    ended: Counter[str] = Counter()
    not_ok = []
    times = []
    running, now = None, Now(None, None, None)
    for cell, repeat in asked:
        attempts = campaign.attempts(cell.id, repeat)
        if not attempts:
            continue
        last = attempts[-1]
        outcome = last.outcome
        if outcome is None:
            if last == now_running:
                running, now = _running(last, cell)
            continue
        ended[outcome.status] += 1
        times.append(outcome.wall_s)
        if outcome.status != "ok":
            not_ok.append((cell.name, outcome.status, outcome.reason))
    waiting = len(asked) - sum(ended.values()) - (running is not None)
    return Status(
        campaign=campaign.name,
        live=live,
        runs=len(asked),
        ended=dict(ended),
        not_ok=tuple(not_ok),
        running=running,
        left_s=left_s(times, waiting, now.left_s, running.elapsed_s) if running else None,
    )


def _running(attempt: Attempt, cell: Cell) -> tuple[Running, Now]:
    elapsed_s = max(0.0, time.time() - attempt.planned_at)
    where = f"{names.CAMPAIGN}: cell {cell.name}"
    wanted = load_system(cell.system).recorded(cell.parameters, where).get("train_iters")
    now = now_of(cell.system, attempt, wanted)
    running = Running(
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        elapsed_s=round(elapsed_s, 1),
        words=progress(now, wanted, elapsed_s),
        folder=str(attempt.path),
    )
    return running, now
