"""One `ci`: a matrix with two versions that take turns on the same nodes; what is worse, and how
sure that is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from runner.base.errors import UserError
from runner.compare.quantity import Judging
from runner.compare.side import Side
from runner.compare.verdicts import CampaignComparison, compare_campaigns
from runner.figures.between_runs import comparisons_for
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch.bench import Tally, bench
from runner.launch.engine import Wanted
from runner.launch.engines import engine_of
from runner.launch.view import View
from runner.plan.make import campaign_name
from runner.results.machines import installed_facts
from runner.tables.campaign_reading import read_campaign
from runner.tables.columns import JUDGED, THRESHOLDS
from runner.tables.row import Row
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.run import Run
from runner.versions.building import Builder, used_by
from runner.versions.version import AXIS, Version, VersionCell, refuse_open, with_version

ALARM_PERCENT = 1.0  # of 100 comparisons of equal versions, how many are called worse
PAIRS = 8  # of each cell, unless the matrix has repeats
LONGEST_NAME = 64
SPEED = ("samples_per_s", "step_time_ms")
Repeat = tuple[Cell, int]


@dataclass(frozen=True)
class CiOptions:
    """What the command line says."""

    head: Version
    base: Version
    limits: Mapping[str, float] = field(default_factory=dict)
    pairs: int | None = None
    alarm_percent: float = ALARM_PERCENT
    retry: int = 1


@dataclass(frozen=True)
class CiResult:
    """What came out. `failed`: why no comparison can be made of some of it, a line each."""

    comparison: CampaignComparison | None
    failed: Sequence[str]
    tally: Tally | None = None

    @property
    def verdict(self) -> str:
        """Return failed, worse, cannot_tell, better or same."""
        if self.failed or self.comparison is None:
            return "failed"
        verdicts = {cell.verdict for cell in self.comparison.cells}
        if self.comparison.regressions:
            return "worse"
        if self.comparison.untold:
            return "cannot_tell"
        return "better" if verdicts & {"faster", "better", "less_memory"} else "same"


@dataclass(frozen=True)
class TakingTurns:
    """Runs two versions of each cell one behind the other, and the other way round the next time
    (ABBA), so that what changes slowly changes both alike (launch/repeating.py: RunSource).
    """

    pairs: Sequence[tuple[str, ...]]  # digests of the versions' cells
    time_limit_s: float

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List all runs in their order."""
        return list(self._in_turn(matrix, {cell.digest: cell for cell in cells}))

    def _in_turn(self, matrix: Matrix, cells: Mapping[str, Cell]) -> Iterator[Repeat]:
        for number in matrix.numbers:
            for pair in self.pairs:
                for digest in pair if number % 2 else pair[::-1]:
                    yield cells[digest], number

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """Nothing comes later."""
        return []

    def said(self, todo: Sequence[Repeat]) -> str:
        """Nothing comes later."""
        return ""

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Hold nodes for what is left."""
        remaining = [cell for cell, _ in todo]
        return Wanted(remaining, self.time_limit_s), remaining

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """Look at no run."""
        return nullcontext()


@dataclass
class CiSession:
    """A matrix on a cluster, whose inventory is `builder.inventory`."""

    matrix: Matrix
    cluster: Cluster
    runs: Path
    options: CiOptions
    builder: Builder

    @property
    def versions(self) -> list[Version]:
        """The versions that run, the base first."""
        return [self.options.base, self.options.head]

    @cached_property
    def cells_by_version(self) -> dict[str, list[VersionCell]]:
        """The cells of each version, by its label. Raises UserError."""
        cells_by_label = {
            version.label: [
                with_version(item, version, self.matrix.pins) for item in self.matrix.cells
            ]
            for version in self.versions
        }
        for cells in cells_by_label.values():
            refuse_open(cells)
        shared = [item.shared_name for item in next(iter(cells_by_label.values()))]
        if len(set(shared)) < len(shared):
            raise UserError(
                f"the matrix {self.matrix.name} has cells that differ in `pin` alone; that is what"
                " ci compares, so name one pin set under `defaults`"
            )
        turns = zip(*cells_by_label.values(), strict=True)
        if len(cells_by_label) < 2 or any(a.cell.digest == b.cell.digest for a, b in turns):
            raise UserError(
                f"{' and '.join(cells_by_label)} are the same version: name two that differ"
            )
        return cells_by_label

    @cached_property
    def held_matrix(self) -> Matrix:
        """The matrix as bench runs it."""
        cells = tuple(
            item.cell
            for cells_of_version in self.cells_by_version.values()
            for item in cells_of_version
        )
        pairs = self.options.pairs or (self.matrix.repeats if self.matrix.repeats > 1 else PAIRS)
        names = [self.matrix.name, "ci", *(item.suffix for item in self.versions)]
        name = "-".join(names)
        if len(name) > LONGEST_NAME:
            name = "-".join(
                [self.matrix.name[:20], "ci", *(item.suffix[-18:] for item in self.versions)]
            )
        return replace(
            self.matrix,
            name=name[:LONGEST_NAME],
            cells=cells,
            repeats=len(self.matrix.seeds) or pairs,
            until_percent=None,
            shuffle_seed=None,
            baseline=f"{AXIS}={self.options.base.label}",
        )

    @cached_property
    def cluster_with_pins(self) -> Cluster:
        """The cluster, with the pin sets of both versions."""
        return self.cluster.knowing([cell.pin for cell in self.held_matrix.cells])

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign's folder."""
        return Campaign(self.runs / campaign_name(self.held_matrix, self.cluster_with_pins))

    def run(self, view: View, limit_s: float | None = None) -> CiResult:
        """Build what is not there yet, run what has not run, and compare. Raises UserError."""
        cells_of_version = [item for cells in self.cells_by_version.values() for item in cells]
        sets = {
            item.cell.pin: item.pin_set for item in cells_of_version if item.pin_set is not None
        }
        built = self.builder.build(used_by([item.cell for item in cells_of_version], sets))
        if built:
            return CiResult(
                None,
                [f"pin set {pin} could not be built: {why}" for (_, pin), why in built.items()],
            )
        pairs = [
            tuple(item.cell.digest for item in turn)
            for turn in zip(*self.cells_by_version.values(), strict=True)
        ]
        tally = bench(
            self.held_matrix,
            self.cluster_with_pins,
            self.runs,
            engine=engine_of(self.cluster_with_pins, self.runs),
            retry=self.options.retry,
            limit_s=limit_s,
            view=view,
            source=TakingTurns(pairs, self.matrix.time_limit_s),
        )
        if tally.interrupted or tally.expired:
            return CiResult(None, ["it was stopped before its end"], tally)
        return self.result(tally)

    def result(self, tally: Tally | None = None) -> CiResult:
        """Compare what ran."""
        rows = read_campaign(self.campaign, Path.cwd()).rows
        sides = {label: self._side(label, rows) for label in self.cells_by_version}
        head = sides[self.options.head.label]
        base = sides[self.options.base.label]
        failed = [
            f"{row['cell']} of {item.name}: {row['status']}: {row['reason'] or 'unknown'}"
            for item in sides.values()
            for row in item.rows
            if row["status"] != "ok"
        ]
        if failed:
            return CiResult(None, failed, tally)
        limits = self._limits(base, head)
        noisy = sum(JUDGED[name].by_runs for name in limits) * len(head.rows)
        judging = Judging(comparisons_for(self.options.alarm_percent, max(noisy, 1)), paired=True)
        comparison = compare_campaigns(base, head, limits, judging=judging, rule=self._rule())
        return CiResult(comparison, [], tally)

    def _limits(self, base: Side, head: Side) -> dict[str, float]:
        """Return the quantities that count: those asked for, else the speed that both have."""
        if self.options.limits:
            return dict(self.options.limits)
        rows = [*base.rows, *head.rows]
        for name in SPEED:
            if rows and all(row["figures"].get(name) is not None for row in rows):
                return {name: THRESHOLDS["samples_per_s"]}
        return {"samples_per_s": THRESHOLDS["samples_per_s"]}

    def _rule(self) -> str:
        return (
            "worse: by more than the threshold and beyond chance. Two equal versions are called"
            f" worse at most {self.options.alarm_percent:g} times in 100, over all cells together"
            " (Student's t over pairs of runs that took turns; Bonferroni); cannot_tell: a"
            " difference of the threshold would not show"
        )

    def _side(self, label: str, table: Sequence[Row]) -> Side:
        """Return the rows of a version as a campaign's of its own, named as in the matrix."""
        shared = {item.cell.digest: item.shared_name for item in self.cells_by_version[label]}
        by_name = {
            item.cell.name: shared[item.cell.digest] for item in self.cells_by_version[label]
        }
        rows: list[Row] = [
            {**row, "cell": by_name[row["cell"]]} for row in table if row["cell"] in by_name
        ]
        facts: dict[str, str] = {}
        for item in self.cells_by_version[label]:
            facts |= installed_facts(self.campaign.inspections(), item.cell.system, item.cell.pin)
        version = next(
            cells_of_version
            for cells_of_version in self.versions
            if cells_of_version.label == label
        )
        return Side(version.title, rows, facts)
