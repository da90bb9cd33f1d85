"""How far a campaign is, read from its folder alone: for another terminal, or the day after."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner import systems
from runner.parsers.latest import latest_step
from runner.rundir import Attempt, Campaign
from runner.view import progress


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

    `left_s` is a guess: the median time of the runs that ended, for those that did not run.
    """

    campaign: str
    live: bool
    runs: int
    ended: Mapping[str, int]
    not_ok: tuple[tuple[str, str, str], ...]
    running: Running | None
    left_s: float | None

    def to_json(self) -> dict[str, Any]:
        """The object that `status --format json` prints."""
        return {"schema": 1, **asdict(self)}

    def words(self) -> str:
        """The same for a person."""
        ended = sum(self.ended.values())
        state = "a bench runs it" if self.live else "no bench runs it"
        lines = [f"campaign {self.campaign}: {ended} of {self.runs} runs ended, {state}"]
        lines += [f"  {count} {status}" for status, count in self.ended.items()]
        if self.running:
            now = self.running
            lines.append(f"now: {now.cell}: {now.words}  ({now.folder})")
        if self.left_s is not None:
            lines.append(f"about {self.left_s / 60:.0f} min left for the runs that did not begin")
        lines += [f"{status}: {cell}: {reason}" for cell, status, reason in self.not_ok]
        return "\n".join(lines)


def look(campaign: Campaign) -> Status:
    """Read a campaign's folder."""
    settings = campaign.settings or {"cells": [], "repeats": 1}
    live = campaign.is_locked()
    ended: Counter[str] = Counter()
    not_ok = []
    times = []
    running = None
    for cell in settings["cells"]:
        for repeat in range(1, int(settings["repeats"]) + 1):
            attempts = campaign.attempts(cell["id"], repeat)
            if not attempts:
                continue
            last = attempts[-1]
            outcome = last.outcome
            if outcome is None:
                if live:
                    running = _running(last, cell)
                continue
            ended[str(outcome["status"])] += 1
            times.append(float(outcome["wall_s"]))
            if outcome["status"] != "ok":
                not_ok.append((str(cell["name"]), str(outcome["status"]), str(outcome["reason"])))
    total = len(settings["cells"]) * int(settings["repeats"])
    waiting = total - sum(ended.values()) - (running is not None)
    return Status(
        campaign=campaign.name,
        live=live,
        runs=total,
        ended=dict(ended),
        not_ok=tuple(not_ok),
        running=running,
        left_s=statistics.median(times) * waiting if live and times and waiting > 0 else None,
    )


def _running(attempt: Attempt, cell: Mapping[str, Any]) -> Running:
    elapsed_s = max(0.0, time.time() - attempt.planned_at)
    now = latest_step(systems.load(str(cell["system"])).parse, attempt.logs())
    return Running(
        cell=str(cell["name"]),
        repeat=attempt.repeat,
        attempt=attempt.number,
        elapsed_s=round(elapsed_s, 1),
        words=progress(now, cell["parameters"].get("train_iters"), elapsed_s),
        folder=str(attempt.path),
    )
