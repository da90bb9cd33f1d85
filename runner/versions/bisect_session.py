"""One bisection: versions in their order, pairs of runs that take turns, builds in between."""

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import median

from runner.base.errors import UserError
from runner.folder.attempt import Attempt
from runner.folder.bisect_file import load_bisected, save_bisected
from runner.folder.campaign import Campaign
from runner.launch.bench import Tally, bench
from runner.launch.engine import Wanted
from runner.launch.engines import engine_of
from runner.launch.view import View
from runner.plan.make import campaign_name
from runner.terms.bisected import BisectAnswer, Bisected, BisectPair, BisectVersion
from runner.terms.cell import MOST_REPEATS, MOST_RUNS, Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.run import Run
from runner.versions.bisect_answer import answer_of
from runner.versions.building import Builder, used_by
from runner.versions.noisy_bisection import (
    BisectEnd,
    BisectRules,
    BisectStep,
    Costs,
    PairReading,
    Posterior,
    next_step,
    usable_of,
)
from runner.versions.run_figures import RunFigures
from runner.versions.version import Version, VersionCell, refuse_open, with_version

LONGEST_NAME = 64
MOST_FAILURES = 2  # pairs in which a version's run failed, before it is skipped
RETRIES = 1
SMALLEST_PERCENT = 1.0  # the smallest change that counts
MOST = 600  # runs in all
BUILD_S = 10.0  # until one was timed
NEW_PAIR_S = 5.0  # likewise
WHY = {
    "ends": "do the ends differ?",
    "halves": "halves what is known",
    "confirms": "confirms the answer",
}
Repeat = tuple[Cell, int]


@dataclass(frozen=True)
class BisectOptions:
    """What the command line says."""

    figure: str
    confidence: float = 0.99


@dataclass
class BisectSession:
    """A bisection of one cell of a matrix on a cluster, whose inventory is `builder.inventory`."""

    matrix: Matrix  # of one cell
    cluster: Cluster
    runs: Path
    versions: Sequence[Version]
    options: BisectOptions
    builder: Builder
    pairs: list[BisectPair] = field(default_factory=list)
    skipped: dict[int, str] = field(default_factory=dict)
    built: set[int] = field(default_factory=set)
    build_times: list[float] = field(default_factory=list)
    stopped: str = ""  # why it cannot go on

    @property
    def last_number(self) -> int:
        """The place of the last version."""
        return len(self.versions) - 1

    def version_cell(self, number: int) -> VersionCell:
        """Return the cell with a version."""
        item = with_version(self.matrix.cells[0], self.versions[number], self.matrix.pins)
        refuse_open([item])
        return item

    @cached_property
    def name(self) -> str:
        """The campaign's name without the inventory's."""
        ends = [self.versions[at].suffix for at in (0, -1)]
        name = "-".join([self.matrix.name, "bisect", *ends])
        if len(name) > LONGEST_NAME:
            name = "-".join([self.matrix.name[:18], "bisect", *(item[-18:] for item in ends)])
        return name[:LONGEST_NAME]

    def held_matrix(self) -> Matrix:
        """Return the matrix as bench runs it: with the versions that are built, or ran."""
        ran = {number for pair in self.pairs for number in (pair.a, pair.b)}
        cells = tuple(self.version_cell(number).cell for number in sorted(self.built | ran))
        return replace(
            self.matrix,
            name=self.name,
            cells=cells,
            repeats=min(MOST_REPEATS, MOST_RUNS // max(len(cells), 1)),
            seeds=(),
            until_percent=None,
            shuffle_seed=None,
            baseline=None,
            searched=True,
        )

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign's folder."""
        named_matrix = replace(self.matrix, name=self.name)
        return Campaign(self.runs / campaign_name(named_matrix, self.cluster))

    @cached_property
    def figures(self) -> RunFigures:
        """What reads the figure of each run."""
        return RunFigures(self.campaign, self.options.figure)

    @cached_property
    def rules(self) -> BisectRules:
        """When to stop."""
        return BisectRules(math.log1p(SMALLEST_PERCENT / 100), self.options.confidence)

    def resume(self) -> None:
        """Take up what ran before. Raises UserError where that was of other versions."""
        there = load_bisected(self.campaign.path) if self.campaign.path.is_dir() else None
        if there is None:
            return
        values = [item.value for item in there.versions]
        if values != [item.value for item in self.versions] or there.figure != self.options.figure:
            raise UserError(
                f"campaign {self.campaign.name} bisects {there.figure} over {len(values)} versions,"
                f" and not {self.options.figure} over these {len(self.versions)}; give the matrix"
                " another `name:`, or ask for the same"
            )
        self.pairs = list(there.pairs)
        self.skipped = {at: item.skipped for at, item in enumerate(there.versions) if item.skipped}

    def save(self) -> Bisected:
        """Write how far it is, where the campaign has begun."""
        bisected = self.bisected()
        if self.campaign.path.is_dir():
            save_bisected(self.campaign.path, bisected)
        return bisected

    def bisected(self) -> Bisected:
        """Return how far it is."""
        return Bisected(
            cell=self.version_cell(0).shared_name,
            figure=self.options.figure,
            smallest_percent=SMALLEST_PERCENT,
            confidence=self.options.confidence,
            versions=tuple(
                BisectVersion(
                    item.kind, item.value, item.label, item.subject, self.skipped.get(at, "")
                )
                for at, item in enumerate(self.versions)
            ),
            pairs=tuple(self.pairs),
            answer=self.answer(),
        )

    def value(self, number: int, repeat: int) -> float | None:
        """Return the figure of a run; None of one that has none, or not yet."""
        return self.figures.value(self.version_cell(number).cell.id, repeat)

    def readings(self) -> list[PairReading]:
        """Return the pairs of which both runs have the figure."""
        readings = []
        for pair in self.pairs:
            a, b = self.value(pair.a, pair.repeat_a), self.value(pair.b, pair.repeat_b)
            if a is not None and b is not None:
                readings.append(PairReading(pair.a, pair.b, math.log(b / a)))
        return readings

    def posterior(self) -> Posterior:
        """Return what is known of the versions that can run."""
        usable = usable_of(self.last_number, self.skipped)
        readings = [item for item in self.readings() if {item.a, item.b} <= set(usable)]
        return Posterior(self.last_number, readings, usable, self.rules)

    def answer(self, stopped: str = "") -> BisectAnswer:
        """Return what is known so far."""
        return answer_of(self.posterior(), self.next(), stopped or self.stopped, self)

    def next(self) -> BisectStep | BisectEnd:
        """Return the next pair, or how it ended."""
        seconds = self.figures.wall_s()
        pair_s = 2 * median(seconds) if seconds else NEW_PAIR_S
        build_s = median(self.build_times) if self.build_times else BUILD_S
        return next_step(self.posterior(), Costs(pair_s, build_s, frozenset(self.built)))

    def skip_failing(self) -> None:
        """Skip versions whose runs failed too often; at an end of all there is nothing to find."""
        failures: dict[int, list[str]] = {}
        for pair in self.pairs:
            for number, repeat in ((pair.a, pair.repeat_a), (pair.b, pair.repeat_b)):
                why = self.figures.failure(self.version_cell(number).cell.id, repeat)
                if why:
                    failures.setdefault(number, []).append(why)
        for number, reasons in failures.items():
            if len(reasons) >= MOST_FAILURES and number not in self.skipped:
                self.skip(number, f"its runs fail: {reasons[-1]}")

    def skip(self, number: int, why: str) -> None:
        """Leave a version out; one of the ends cannot be."""
        if number in (0, self.last_number):
            self.stopped = f"{self.versions[number].title}: {why}"
        else:
            self.skipped[number] = why

    def build(self, places: set[int]) -> None:
        """Build versions, and skip those that cannot be built."""
        cells = {number: self.version_cell(number) for number in sorted(places)}
        sets = {item.cell.pin: item.pin_set for item in cells.values() if item.pin_set is not None}
        began = time.monotonic()
        failed = self.builder.build(used_by([item.cell for item in cells.values()], sets))
        self.build_times.append((time.monotonic() - began) / len(places))
        for number, item in cells.items():
            why = failed.get((item.cell.system, item.cell.pin))
            if why is None:
                self.built.add(number)
            else:
                self.skip(number, f"it cannot be built: {why}")

    def run(self, view: View, limit_s: float | None = None) -> tuple[Tally | None, Bisected]:
        """Build and run until it is known, or stopped. Raises UserError."""
        self.resume()
        ends_at = None if limit_s is None else time.monotonic() + limit_s
        places = {0, self.last_number, *(at for pair in self.pairs for at in (pair.a, pair.b))}
        places -= self.skipped.keys()
        tally = None
        while True:
            missing = places - self.built
            if missing:
                self.build(missing)
            if self.stopped or self.over():
                break
            remaining_s = None if ends_at is None else ends_at - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                self.stopped = "its time is over; the same command goes on"
                break
            places = self._next_numbers()
            if places - self.built:
                continue
            tally = bench(
                self.held_matrix(),
                self.cluster.knowing([cell.pin for cell in self.held_matrix().cells]),
                self.runs,
                engine=engine_of(self.cluster, self.runs),
                retry=RETRIES,
                limit_s=remaining_s,
                view=view,
                source=BisectSource(self, self.matrix.time_limit_s),
            )
            if tally.interrupted or tally.expired:
                self.stopped = "it was stopped; the same command goes on"
                break
            self.skip_failing()
        return tally, self.save()

    def over(self) -> bool:
        """Whether it has ended, or may not run longer."""
        if len(self.pairs) * 2 >= MOST and not self.unfinished():
            self.stopped = f"{MOST} runs were made, and it is not sure yet: runs of more steps help"
        return bool(self.stopped) or (isinstance(self.next(), BisectEnd) and not self.unfinished())

    def unfinished(self) -> list[BisectPair]:
        """Return pairs of which a run is not over."""
        return [
            pair
            for pair in self.pairs
            if not all(
                self.figures.over(self.version_cell(number).cell.id, repeat)
                for number, repeat in ((pair.a, pair.repeat_a), (pair.b, pair.repeat_b))
            )
        ]

    def _next_numbers(self) -> set[int]:
        """Return the versions that the next runs need."""
        step = self.next()
        numbers = {at for pair in self.unfinished() for at in (pair.a, pair.b)}
        return numbers | ({step.a, step.b} if isinstance(step, BisectStep) else set())

    def repeats_of(self, pair: BisectPair) -> list[tuple[int, int]]:
        """Return the runs of a pair in their order, which changes from pair to pair."""
        both = [(pair.a, pair.repeat_a), (pair.b, pair.repeat_b)]
        return both if (pair.repeat_a + pair.repeat_b) % 2 == 0 else both[::-1]

    def add_pair(self) -> BisectPair | None:
        """Decide on the next pair, if its versions are built; None where that, or it, is over."""
        self.skip_failing()
        if self.over():
            return None
        step = self.next()
        if not isinstance(step, BisectStep) or not {step.a, step.b} <= self.built:
            return None
        runs = [at for pair in self.pairs for at in (pair.a, pair.b)]
        pair = BisectPair(step.a, runs.count(step.a) + 1, step.b, runs.count(step.b) + 1)
        self.pairs.append(pair)
        return pair


@dataclass(frozen=True)
class BisectSource:
    """Says which runs of the campaign come next (launch/repeating.py: RunSource)."""

    session: BisectSession
    time_limit_s: float

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the runs of all pairs so far; those that are not over run again."""
        return [run for pair in self.session.pairs for run in self._runs(pair, cells)]

    def _runs(self, pair: BisectPair, cells: Sequence[Cell]) -> list[Repeat]:
        by_digest = {cell.digest: cell for cell in cells}
        return [
            (by_digest[self.session.version_cell(number).cell.digest], repeat)
            for number, repeat in self.session.repeats_of(pair)
        ]

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the two runs of the next pair."""
        pair = self.session.add_pair()
        self.session.save()
        return [] if pair is None else self._runs(pair, cells)

    def said(self, todo: Sequence[Repeat]) -> str:
        """Return a line on the next pair."""
        if not todo:
            return ""
        pair, posterior = self.session.pairs[-1], self.session.posterior()
        step = next_step(posterior, Costs())
        why = WHY[step.why] if isinstance(step, BisectStep) else ""
        a, b = (self.session.versions[at].label for at in (pair.a, pair.b))
        return f"next: {a} against {b} ({why}); {so_far(posterior, self.session.versions)}"

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Hold nodes for some pairs; the nodes are ready for all versions that are built."""
        return Wanted([cell for cell, _ in todo] * 10, self.time_limit_s), list(cells)

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """Look at no run."""
        return nullcontext()


def so_far(posterior: Posterior, versions: Sequence[Version]) -> str:
    """Say what is known in a few words."""
    best = max(posterior.groups, key=lambda item: item.probability)
    label = f"{versions[best.final].label} {best.probability:.0%}"
    return f"no change {posterior.no_change:.0%}, {label} so far"
