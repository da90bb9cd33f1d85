"""What a search found so far, as data: tune.json of a campaign is this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal[
    "winner",
    "finalist",  # it made long runs
    "tried",
    "ended_early",
    "refused",  # it ran and may not win
    "failed",
    "predicted_out",  # of memory
    "not_tried",
    "illegal",
]


@dataclass(frozen=True)
class TunedRun:
    """A run of the search, in the order of `number`; `figure` is in the answer's unit."""

    number: int
    candidate: str  # its name
    length: Literal["short", "long"]
    ending: str
    began: float  # epoch seconds
    wall_s: float
    reason: str = ""
    figure: float | None = None
    memory_mib: float | None = None
    best: float | None = None  # the least figure of runs that ended ok, up to this one


@dataclass(frozen=True)
class TunedCandidate:
    """A combination of the knobs: what was predicted of it at the end, and what was measured."""

    name: str
    knobs: Mapping[str, Any]
    state: State
    reason: str = ""
    runs: int = 0
    figure: float | None = None  # mean of its long runs, else of its short ones
    predicted: float | None = None
    memory_mib: float | None = None
    memory_estimate_mib: float | None = None


@dataclass(frozen=True)
class TunedDifference:
    """How much faster the winner is than another candidate, in percent of the other's speed.

    `low` and `high` are the ends of the interval, which holds for all differences together with a
    probability of 95 %; None for the reason in `missing`.
    """

    to: str  # the default, the rule of thumb, the second
    candidate: str
    percent: float | None = None
    low: float | None = None
    high: float | None = None
    missing: str = ""


@dataclass(frozen=True)
class Tuned:
    """The answer: a winner or none, by how much, what was tried, and what it cost.

    `why` is SearchEnd's, `going_on` before the end, `stopped` where nodes were lost. `pays_after`
    counts the steps that the winner needs to save what the search took, beside the default.
    """

    objective: str
    unit: str  # of all figures
    why: str
    words: str
    inventory: str
    fingerprint: str  # of the machine: Cluster.digest
    winner: str | None = None
    figure: float | None = None  # the winner's
    differences: tuple[TunedDifference, ...] = ()
    candidates: tuple[TunedCandidate, ...] = ()
    runs: tuple[TunedRun, ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)
    cost: float = 0.0
    cost_unit: str = "node-hours"
    took_s: float = 0.0
    pays_after: int | None = None
    notes: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()  # (host, cwd, environment, command) of each node
    # Layouts and their step times in s, for later searches on this machine.
    measured: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what tune.json holds."""
        return {"schema": 1, **asdict(self)}

    def count(self, state: State) -> int:
        """Count the candidates in a state."""
        return sum(candidate.state == state for candidate in self.candidates)
