"""What one acceptance found so far, as a folder: a checkup with a state that is gone on with."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.checkup import Checkup
from runner.folder.stored import SCHEMA, UnreadableError, load, write_json

ONCE = frozenset(("unanswered", "commands"))  # lists of a report in which no text stands twice
LISTS = (*ONCE, "faults", "notes", "untested", "tests", "lost")


@dataclass(frozen=True)
class NodeFault:
    """What is wrong, on which nodes; none where it cannot be said which."""

    stage: str
    test: str
    nodes: tuple[str, ...]
    words: str
    cure: str


@dataclass(frozen=True)
class StageReport:
    """What a stage found. `tests` are its figures, as doctor's JSON has them; `untested` is what
    it does not test, `unanswered` what it tried to.

    `lost` are nodes that cannot take part in what follows; `commands` is what was run. Not
    `measured`: the stage gave up, so that no node has all its results.
    """

    stage: str
    began_at: float = 0.0
    took_s: float = 0.0
    faults: tuple[NodeFault, ...] = ()
    notes: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    tests: tuple[Any, ...] = ()
    lost: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    measured: bool = True

    def adding(self, **more: Iterable[Any]) -> "StageReport":
        """Return it with more in its lists, none of whose texts stands there twice."""
        lists: dict[str, Any] = {name: (*getattr(self, name), *new) for name, new in more.items()}
        once = {name: tuple(dict.fromkeys(lists[name])) for name in ONCE & lists.keys()}
        return replace(self, **lists | once)


def merged(stage: str, reports: Sequence[StageReport]) -> StageReport:
    """Return what several reports found as one."""
    found = StageReport(stage, took_s=sum(report.took_s for report in reports))
    for report in reports:
        found = found.adding(**{name: getattr(report, name) for name in LISTS})
    return replace(found, measured=all(report.measured for report in reports))


def timed(do: Callable[[], StageReport]) -> StageReport:
    """Do what a report is of: when it began and how long it took, unless it says so."""
    began_at, began = time.time(), time.monotonic()
    found = do()
    return replace(found, began_at=began_at, took_s=found.took_s or time.monotonic() - began)


@dataclass(frozen=True)
class AcceptState:
    """How far an acceptance is: state.json. `rounds` are those of a stage that goes on."""

    began_at: float
    options: Mapping[str, Any] = field(default_factory=dict)
    expected_s: float = 0.0
    stages: tuple[StageReport, ...] = ()
    rounds: tuple[StageReport, ...] = ()
    ended_at: float | None = None

    def report(self, stage: str) -> StageReport | None:
        """Return what a stage found; None where it has not ended."""
        return next((report for report in self.stages if report.stage == stage), None)

    def with_stage(self, report: StageReport) -> "AcceptState":
        """Return the state after a stage has ended."""
        return replace(self, stages=(*self.stages, report), rounds=())

    @property
    def lost(self) -> list[str]:
        """Return the nodes that take part no longer."""
        return [host for report in (*self.stages, *self.rounds) for host in report.lost]


class Acceptance(Checkup):
    """The folder of one acceptance of an inventory's nodes."""

    @property
    def refusal(self) -> str:
        """What a second accept is told."""
        return f"another accept tests the nodes of {self.path.parent.name}"

    @property
    def state(self) -> AcceptState | None:
        """state.json; None before the first stage. Raises UnreadableError."""
        state: AcceptState | None = load(self.path / names.STATE, shape(AcceptState), names.STATE)
        return state

    def save(self, state: AcceptState) -> None:
        """Write how far it is."""
        write_json(self.path / names.STATE, {"schema": SCHEMA, **asdict(state)})


def acceptances(folder: Path) -> Iterator[Acceptance]:
    """Yield the acceptances of an inventory, oldest first."""
    numbers = [int(path.name) for path in folder.glob("*") if re.fullmatch(r"\d{1,9}", path.name)]
    for number in sorted(numbers):
        yield Acceptance(folder / str(number))


def current(folder: Path, options: Mapping[str, Any], *, new: bool = False) -> Acceptance:
    """Return the acceptance to go on with: the last one if it has not ended, else a new one.

    One that was asked for otherwise is not gone on with.
    """
    earlier = list(acceptances(folder))
    if earlier and not new:
        last = earlier[-1]
        try:
            state = last.state
        except UnreadableError as error:
            cure = "begin another acceptance with --new"
            raise UserError(f"{last.path}: {error}; {cure}") from None
        if state is None or (state.ended_at is None and dict(state.options) == dict(options)):
            return last
    return Acceptance(folder / str(int(earlier[-1].name) + 1 if earlier else 1))
