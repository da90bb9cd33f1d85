"""What a repeat's attempts went through: faults, steps, checkpoints. Data; times in epoch seconds.

All times are the control node's clock: a node's own are corrected by what bench saw of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FaultSeen:
    """A fault that a supervisor caused; `undone_at` of one that ended by itself."""

    number: int
    kind: str
    node: int
    at: float
    undone_at: float | None = None


@dataclass(frozen=True)
class StepSeen:
    """A logged line of the trainer: `iterations` up to `iteration` took `seconds`, and the line's
    checkpoints `paused_s` more; it ended at `at`.
    """

    iteration: int
    iterations: int
    seconds: float
    at: float
    loss: float | None = None
    paused_s: float = 0.0


@dataclass(frozen=True)
class SaveSeen:
    """A checkpoint: training stood for `stall_s`, and it was on the disk after `durable_s`."""

    stall_s: float
    durable_s: float
    bytes: int


@dataclass(frozen=True)
class TrainedSession:
    """The trainer's processes from one start to their end.

    It went on from `iteration`, 0: the beginning; its first step began at `began`, None: nobody
    knows. Before, its processes took `start_s` to come so far, `load_s` of them to load a
    checkpoint.
    """

    iteration: int = 0
    began: float | None = None
    start_s: float = 0.0
    load_s: float = 0.0
    steps: tuple[StepSeen, ...] = ()
    saves: tuple[SaveSeen, ...] = ()


@dataclass(frozen=True)
class AttemptSeen:
    """One attempt: its launchers began, its end was noticed, and all had ended."""

    began: float
    noticed: float
    ended: float
    faults: tuple[FaultSeen, ...] = ()
    sessions: tuple[TrainedSession, ...] = ()


@dataclass(frozen=True)
class Story:
    """All attempts of one repeat that went on from each other."""

    attempts: tuple[AttemptSeen, ...]

    @property
    def sessions(self) -> tuple[TrainedSession, ...]:
        """All sessions of all attempts, in order."""
        return tuple(session for attempt in self.attempts for session in attempt.sessions)

    @property
    def faults(self) -> tuple[FaultSeen, ...]:
        """All faults, in order."""
        return tuple(fault for attempt in self.attempts for fault in attempt.faults)

    @property
    def faulted(self) -> bool:
        """Whether it had a fault on purpose, or went on after a failure: its rate is its end's."""
        return bool(self.faults) or len(self.attempts) > 1
