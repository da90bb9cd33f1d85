"""Run any study: its campaign, builds in between, what it may cost, answer.json after each run."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any

from node.time_words import lasts
from runner.base.dataclass_schema import shape
from runner.base.errors import UserError
from runner.base.files import write_text
from runner.base.text import counted
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.hidden import repeats_that_ran
from runner.folder.stored import OfThisVersion, load, write_json
from runner.launch.bench import bench
from runner.launch.engine import Wanted
from runner.launch.view import View
from runner.plan.dryrun import describe, dry_run
from runner.plan.make import campaign_name
from runner.results.decide import is_finished
from runner.study.early_end import ended_early
from runner.study.observing import Observer
from runner.study.study import (
    Answer,
    Build,
    BuildInterruptedError,
    Built,
    End,
    Order,
    PinSets,
    Seen,
    Study,
    Unit,
)
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.run import Run

LOST_IN_A_ROW = 4  # runs lost to node failures in a row, before a study stops
Repeat = tuple[Cell, int]


@dataclass(frozen=True)
class Kept:
    """What is read of answer.json: pin sets that could not be built, and why."""

    cannot_build: Mapping[str, str] = field(default_factory=dict)


KEPT = OfThisVersion(shape(Kept))


# Builds each system's pin sets on the nodes; returns why, of those that could not be built. Raises
# BuildInterruptedError.
Builds = Callable[[Mapping[str, PinSets]], Mapping[tuple[str, str], str]]


@dataclass(frozen=True)
class Limits:
    """What a study may cost; `retry`: how often a run that fails is made again."""

    budget: float | None = None
    unit: Unit = "node-hours"
    retry: int = 0


@dataclass
class Session:
    """A study on a cluster; its campaigns lie in `runs`. `engine` runs them."""

    study: Study
    cluster: Cluster
    runs: Path
    engine: Callable[[Cluster, Path], Any]  # engine_of
    build: Builds | None = None
    limits: Limits = Limits()
    builds: dict[str, Built] = field(default_factory=dict)
    stopped: str = ""  # why it does not go on now

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign's folder."""
        return Campaign(self.runs / campaign_name(self.study.matrix(Seen()), self.cluster))

    @cached_property
    def _observer(self) -> Observer:
        kept: Kept | None = load(self.campaign.path / names.ANSWER, KEPT, names.ANSWER)
        if kept is not None:
            self.builds |= {pin: Built(0.0, why) for pin, why in kept.cannot_build.items()}
        return Observer(self.campaign)

    def look(self) -> Seen:
        """Return what ran; asks no node."""
        return self._observer.seen(self.builds)

    def run(self, view: View, limit_s: float | None = None) -> tuple[Answer, int]:
        """Build and run until there is an answer, or it is stopped; the answer and exit code."""
        ends_at = None if limit_s is None else time.monotonic() + limit_s
        interrupted = False
        while not (interrupted or self.stopped):
            seen = self.look()
            step = self.study.next(seen)
            if isinstance(step, End):
                break
            if isinstance(step, Build):
                try:
                    self._build(step)
                except BuildInterruptedError:
                    interrupted = True
                continue
            remaining_s = None if ends_at is None else ends_at - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                self.stopped = "its time is over"
                break
            matrix = self.study.matrix(seen)
            cluster = self._knowing(matrix)
            tally = bench(
                matrix,
                cluster,
                self.runs,
                engine=self.engine(cluster, self.runs),
                retry=self.limits.retry,
                limit_s=remaining_s,
                view=view,
                source=StudySource(self, matrix.time_limit_s),
            )
            interrupted = tally.interrupted
            if tally.expired:
                self.stopped = "its time is over"
            if len(self.look().runs) == len(seen.runs):
                break
        answer = self.save()
        return answer, 130 if interrupted else answer.exit_code

    def _knowing(self, matrix: Matrix) -> Cluster:
        return self.cluster.knowing([*matrix.pins, *(cell.pin for cell in matrix.cells)])

    def _build(self, step: Build) -> None:
        assert self.build is not None
        began = time.monotonic()
        failed = self.build(step.pins)
        pins = [(system, pin) for system, sets in step.pins.items() for pin in sets]
        each_s = (time.monotonic() - began) / len(pins)
        for system, pin in pins:
            self.builds[pin] = Built(each_s, failed.get((system, pin), ""))

    def answer(self, seen: Seen | None = None) -> Answer:
        """Return what is known so far; where it is not over, it says so."""
        seen = self.look() if seen is None else seen
        answer = self.study.answer(seen)
        if isinstance(self.study.next(seen), End):
            return answer
        why = self.stopped or "the same command goes on"
        return replace(answer, notes=(*answer.notes, f"not over: {why}"))

    def save(self, seen: Seen | None = None) -> Answer:
        """Write what is known so far, where the campaign has begun."""
        answer = self.answer(seen)
        if self.campaign.path.is_dir():
            failed = {pin: built.failed for pin, built in self.builds.items() if built.failed}
            content = {**answer.to_json(), "cannot_build": failed}
            write_json(self.campaign.path / names.ANSWER, content)
            if names.WINNER not in answer.files:
                (self.campaign.path / names.WINNER).unlink(missing_ok=True)
            for name, text in answer.files.items():
                write_text(self.campaign.path / name, text)
        return answer

    def plan(self) -> Answer:
        """Return what it would do."""
        seen = self.look()
        left = self.study.ahead(seen)
        notes, run_s = self.study.plan(seen)
        took = [run.wall_s for run in seen.runs if run.ending == "ok"]
        each_s = median(took) if took else run_s
        expected_s = None if each_s is None else each_s * len(left)
        ran = f"{counted(len(seen.runs), 'run')} made; " if seen.runs else ""
        words = "nothing is left to run"
        if left:
            took_words = "a time that nobody knows yet"
            if expected_s is not None:
                took_words = f"about {lasts(expected_s)}"
            more = " more" if ran else ""
            words = f"probably {counted(len(left), 'run')}{more}, {took_words}"
        return Answer(
            self.study.kind,
            "plan",
            0,
            f"campaign {self.campaign.name}: {ran}{words}",
            notes=tuple(notes),
            detail={
                "campaign": self.campaign.name,
                "ran": len(seen.runs),
                "runs_left": len(left),
                "expected_s": expected_s,
            },
        )

    def dry_run(self) -> tuple[list[dict[str, Any]], str]:
        """Return the first runs as they would start, as data and as text."""
        seen = self.look()
        cells = tuple({cell.id: cell for cell in self.study.ahead(seen)}.values())
        matrix = replace(self.study.matrix(seen), cells=cells, repeats=1, seeds=())
        cluster = self._knowing(matrix)
        preview = partial(self.engine(cluster, self.runs).preview, self.campaign)
        plans = dry_run(matrix, cluster, preview=preview)
        return plans, describe(plans, matrix, cluster)


@dataclass
class StudySource:
    """Which runs of a study's campaign come next (launch/repeating.py: RunSource)."""

    session: Session
    time_limit_s: float
    asked: int = 0  # runs of this bench
    words: str = ""
    above: dict[tuple[str, int], float | None] = field(default_factory=dict)

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the repeats that are finished; the study asks again for interrupted ones."""
        return [
            (cell, number)
            for cell in cells
            for number in sorted(repeats_that_ran(campaign.path, cell.id))
            if _over(campaign, cell, number)
        ]

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the runs that the study asks for next."""
        session = self.session
        seen = session.look()
        session.save(seen)
        step = session.study.next(seen)
        if isinstance(step, Build | End) or self._stops(seen):
            return []
        by_digest = {cell.digest: cell for cell in cells}
        todo: list[Repeat] = []
        for order in self._affordable(step, seen):
            cell = by_digest[order.cell.digest]
            number = next(
                (
                    number
                    for number in matrix.numbers
                    if (cell, number) not in todo and not _over(campaign, cell, number)
                ),
                None,
            )
            if number is None:
                session.stopped = f"{cell.name} has run too often"
                break
            todo.append((cell, number))
            self.above[cell.id, number] = order.end_above_s
        self.words = step[0].why if todo else ""
        self.asked += len(todo)
        return todo

    def _stops(self, seen: Seen) -> bool:
        """Whether no further run can be carried out, after several in a row of this session."""
        last = seen.runs[-min(LOST_IN_A_ROW, self.asked) :] if self.asked else []
        if len(last) < LOST_IN_A_ROW or any(run.ending != "lost_node" for run in last):
            return False
        self.session.stopped = (
            f"{LOST_IN_A_ROW} runs in a row could not be carried out: {last[-1].reason};"
            " look at the nodes, then run the same command to go on"
        )
        return True

    def _affordable(self, orders: Sequence[Order], seen: Seen) -> Sequence[Order]:
        """Return the orders that the budget has room for, each as costly as any run so far."""
        limits = self.session.limits
        if limits.budget is None:
            return orders
        hours = [run.hours(limits.unit) for run in seen.runs]
        room = int((limits.budget - sum(hours)) / max(*hours, 1e-9)) if hours else 1
        if room < 1 or not limits.budget:
            self.session.stopped = f"the budget of {limits.budget:g} {limits.unit} is spent"
            return []
        return orders[:room]

    def said(self, todo: Sequence[Repeat]) -> str:
        """Return a line on the next runs."""
        return f"next: {self.words}" if todo and self.words else ""

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Return the runs that are probably left, to hold nodes for, and all cells to prepare."""
        ahead = self.session.study.ahead(self.session.look())
        return Wanted(list(ahead) or [cell for cell, _ in todo], self.time_limit_s), list(cells)

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """End a run that is slower than the study lets it be."""
        return ended_early(attempt, run, self.above.get((attempt.cell_id, attempt.repeat)))


def _over(campaign: Campaign, cell: Cell, number: int) -> bool:
    attempts = campaign.attempts(cell.id, number)
    return bool(attempts) and is_finished(attempts[-1].outcome)


def refuse_unbegun(session: Session) -> None:
    """Raise UserError where there is nothing to answer from."""
    if not session.campaign.begun:
        raise UserError(f"nothing of campaign {session.campaign.name} has run yet")
