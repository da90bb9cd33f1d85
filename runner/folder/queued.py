"""What a queue said last of a run that has not begun: queue.json, for all who watch it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from node.schema import Whole
from runner.base.clock import ZONE, minute
from runner.terms.outcome import Time, Word

PENDING = "PENDING"
GONE_ON = ("RUNNING", "COMPLETING")  # the run's own log tells more


@dataclass(frozen=True)
class Queued:
    """A run's place in a queue, in a scheduler's words; `asked_at` is when (epoch seconds).

    `position` counts from 1 among the jobs that wait there; `expected_start` is the queue's guess.
    """

    state: Word = PENDING
    reason: Word = ""
    position: Annotated[int, Whole(1)] | None = None
    expected_start: Time | None = None
    asked_at: Time = 0.0
    job_id: Word = ""

    def to_json(self) -> dict[str, Any]:
        """Return what queue.json holds."""
        return asdict(self)

    def words(self) -> str:
        """Say it: `queued, 3rd, Priority, expected 12:40`; nothing of one that has begun."""
        if self.state in GONE_ON:
            return ""
        parts = ["queued" if self.state == PENDING else self.state.lower()]
        parts += [_ordinal(self.position)] if self.position else []
        parts += [self.reason] if self.reason not in ("", "None") else []
        parts += [f"expected {_clock(self.expected_start)}"] if self.expected_start else []
        return ", ".join(parts)


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _clock(at: float) -> str:
    """Write a time as 12:40 UTC, and with its day where that is not today."""
    return f"{minute(at, since=time.time())} {ZONE}"
