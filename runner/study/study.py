"""What a study is: it asks for runs by what was measured so far, until it has an answer.

A study is pure: it has no clock and reads no files, so to resume it is to show it again what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from runner.terms.cell import Cell, Matrix
from runner.terms.inspected import Inspected
from runner.terms.record import Record

Unit = Literal["node-hours", "device-hours"]
RunEnding = Literal["ok", "ended_early", "out_of_memory", "lost_node", "refused", "failed"]
PinSets = Mapping[str, Mapping[str, Any]]
LONGEST_NAME = 64


class BuildInterruptedError(Exception):
    """Ctrl-C came while pin sets were built; the same command goes on."""


@dataclass(frozen=True)
class Observation:
    """One run that ended, whatever asked for it; `figures` by the columns' keys (docs/measures.md).

    `ending`: `lost_node` says nothing of the cell, `refused` diverged, `failed` is all else.
    `gates` are codes of figures/publishable.py that hold for it, with why.
    """

    cell: str  # its digest
    repeat: int
    attempt: int
    began: float  # epoch seconds
    wall_s: float
    nodes: int
    devices: int
    ending: RunEnding
    final: bool = True  # bench leaves it alone
    reason: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict, compare=False)
    gates: Mapping[str, str] = field(default_factory=dict, compare=False)
    record: Record | None = field(default=None, compare=False)

    def hours(self, unit: Unit = "node-hours") -> float:
        """Return what it cost."""
        return self.wall_s / 3600 * (self.nodes if unit == "node-hours" else self.devices)


class Built(NamedTuple):
    """A pin set that was built, in so many seconds, or could not be."""

    seconds: float
    failed: str = ""


class Seen(NamedTuple):
    """What a study decides by: runs, the oldest first; pin sets by name; what nodes have."""

    runs: Sequence[Observation] = ()
    builds: Mapping[str, Built] = {}
    nodes: Mapping[str, Inspected] = {}

    @property
    def repeats(self) -> list[Observation]:
        """The last attempt of each repeat that is over, in the order in which repeats began."""
        last = {(run.cell, run.repeat): run for run in self.runs}
        return [run for run in last.values() if run.final]


class Order(NamedTuple):
    """A run to make next, and why; it is ended where its steps take longer than `end_above_s`."""

    cell: Cell
    why: str = ""
    end_above_s: float | None = None


class Build(NamedTuple):
    """Pin sets to build next, by system."""

    pins: Mapping[str, PinSets]


class End(NamedTuple):
    """It is over; `why` is empty where it found what there is."""

    why: str = ""


@dataclass(frozen=True)
class AnswerTable:
    """A part of an answer: rows by the columns' keys; `columns` has their titles."""

    title: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Any], ...]
    most: int = 30  # rows in a terminal


@dataclass(frozen=True)
class Answer:
    """What a study found so far: answer.json of its campaign, and what `--format json` prints.

    `shown` writes what tables cannot, for a form and a width; `files` are written beside it.
    """

    kind: str
    verdict: str
    exit_code: int
    sentence: str
    tables: tuple[AnswerTable, ...] = ()
    notes: tuple[str, ...] = ()
    cost_node_hours: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)
    shown: Callable[[str, int], str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what answer.json holds."""
        tables = [
            {"title": table.title, "columns": dict(table.columns), "rows": list(table.rows)}
            for table in self.tables
        ]
        return {
            "schema": 1,
            "kind": self.kind,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "sentence": self.sentence,
            "tables": tables,
            "notes": list(self.notes),
            "cost_node_hours": self.cost_node_hours,
            "detail": dict(self.detail),
        }


class Study(Protocol):
    """A question that runs answer."""

    @property
    def kind(self) -> str:
        """Return `tune`, `ci`, `bisect` or `repeat`."""

    def matrix(self, seen: Seen) -> Matrix:
        """Return the matrix as bench runs it: the cells that may run now."""

    def next(self, seen: Seen) -> Sequence[Order] | Build | End:
        """Return what to do next; the same runs give the same orders."""

    def ahead(self, seen: Seen) -> Sequence[Cell]:
        """Return the runs that are probably left, as far as anybody can say."""

    def answer(self, seen: Seen) -> Answer:
        """Return what is known so far."""

    def plan(self, seen: Seen) -> tuple[Sequence[str], float | None]:
        """Return what there is to say beforehand, and the seconds of a run if nothing ran yet."""


def study_name(*words: str) -> str:
    """Return the name of a study's campaign, without the inventory's: a matrix's, what, of what."""
    name = "-".join(words)
    if len(name) > LONGEST_NAME:
        name = "-".join([words[0][:18], words[1], *(word[-18:] for word in words[2:])])
    return name[:LONGEST_NAME]
