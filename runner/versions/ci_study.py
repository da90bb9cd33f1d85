"""`ci` as a study: a matrix with two versions that take turns on the same nodes, and what is worse.

The versions of a cell run one behind the other, and the other way round the next time (ABBA), so
that what changes slowly changes both alike.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from node.printable import printable
from runner.base.errors import UserError
from runner.compare import rendering
from runner.compare.quantity import Judging
from runner.compare.side import Side
from runner.compare.verdicts import CampaignComparison, compare_campaigns
from runner.figures.between_runs import comparisons_for
from runner.results.machines import installed_facts
from runner.study.study import Answer, Build, End, Order, Seen, study_name
from runner.tables.build import measured
from runner.tables.columns import JUDGED, THRESHOLDS
from runner.tables.row import Row
from runner.terms.cell import Cell, Matrix
from runner.versions.version import (
    AXIS,
    Version,
    VersionCell,
    failed_builds,
    refuse_open,
    to_build,
    with_version,
)

ALARM_PERCENT = 1.0  # of 100 comparisons of equal versions, how many are called worse
PAIRS = 8  # of each cell, unless the matrix has repeats
SPEED = ("samples_per_s", "step_time_ms")
CODES = {"same": 0, "better": 0, "worse": 1, "cannot_tell": 3, "failed": 4}
WORDS = {
    "same": "no difference that counts",
    "better": "better",
    "worse": "worse",
    "cannot_tell": "cannot tell: the runs vary too much, or are too few",
    "failed": "failed: there is nothing to compare",
}


@dataclass(frozen=True)
class CiStudy:
    """Two versions of each cell of a matrix; `limits` are the thresholds asked for."""

    asked: Matrix
    head: Version
    base: Version
    limits: Mapping[str, float] = field(default_factory=dict)
    pairs: int | None = None
    alarm_percent: float = ALARM_PERCENT
    kind: str = "ci"

    @property
    def versions(self) -> list[Version]:
        """The versions that run, the base first."""
        return [self.base, self.head]

    @cached_property
    def turns(self) -> list[tuple[VersionCell, VersionCell]]:
        """Each cell with the base and with the head. Raises UserError."""
        base, head = (
            [with_version(cell, version, self.asked.pins) for cell in self.asked.cells]
            for version in self.versions
        )
        refuse_open([*base, *head])
        if len({item.shared_name for item in base}) < len(base):
            raise UserError(
                f"the matrix {self.asked.name} has cells that differ in `pin` alone; that is what"
                " ci compares, so name one pin set under `defaults`"
            )
        turns = list(zip(base, head, strict=True))
        labels = dict.fromkeys(version.label for version in self.versions)
        if len(labels) < 2 or any(a.cell.digest == b.cell.digest for a, b in turns):
            raise UserError(f"{' and '.join(labels)} are the same version: name two that differ")
        return turns

    def matrix(self, seen: Seen) -> Matrix:
        """Do as Study's."""
        pairs = self.pairs or (self.asked.repeats if self.asked.repeats > 1 else PAIRS)
        return replace(
            self.asked,
            name=study_name(self.asked.name, "ci", *(item.suffix for item in self.versions)),
            cells=tuple(item.cell for side in zip(*self.turns, strict=True) for item in side),
            repeats=len(self.asked.seeds) or pairs,
            until_percent=None,
            shuffle_seed=None,
            baseline=f"{AXIS}={self.base.label}",
        )

    def next(self, seen: Seen) -> Sequence[Order] | Build | End:
        """Do as Study's."""
        items = [item for side in zip(*self.turns, strict=True) for item in side]
        if failed_builds(items, seen):
            return End("a version could not be built")
        orders = list(self._orders(seen))
        missing = to_build(items, seen) if orders else {}
        if missing:
            return Build(missing)
        return orders or End()

    def _orders(self, seen: Seen) -> Iterator[Order]:
        over = {(run.cell, run.repeat) for run in seen.repeats}
        for number in self.matrix(seen).numbers:
            for turn in self.turns:
                for item in turn if number % 2 else turn[::-1]:
                    if (item.cell.digest, number) not in over:
                        yield Order(item.cell)

    def ahead(self, seen: Seen) -> Sequence[Cell]:
        """Do as Study's."""
        return [order.cell for order in self._orders(seen)]

    def plan(self, seen: Seen) -> tuple[Sequence[str], float | None]:
        """Do as Study's."""
        return [f"{self.head.title} against {self.base.title}"], None

    def answer(self, seen: Seen) -> Answer:
        """Do as Study's."""
        items = [item for turn in self.turns for item in turn]
        failed = [
            f"pin set {pin} could not be built: {why}"
            for pin, why in failed_builds(items, seen).items()
        ]
        left = sum(1 for _ in self._orders(seen))
        if left and not failed:
            failed = ["it was stopped before its end"]
        sides = {} if failed else self._sides(seen)
        failed += [
            f"{row['cell']} of {side.name}: {row['status']}: {row['reason'] or 'unknown'}"
            for side in sides.values()
            for row in side.rows
            if row["status"] != "ok"
        ]
        comparison = None if failed else self._compared(*sides.values())
        verdict = verdict_of(comparison)
        sentence = f"{self.asked.name}, {self.head.title}: {WORDS[verdict]}"
        document = json.loads(rendering.to_json(comparison)) if comparison else None
        return Answer(
            self.kind,
            verdict,
            CODES[verdict],
            printable(sentence),
            notes=tuple(failed),
            cost_node_hours=sum(run.hours() for run in seen.runs),
            detail={"comparison": document},
            shown=None
            if comparison is None
            else lambda form, width: _shown(comparison, form, width),
        )

    def _compared(self, base: Side, head: Side) -> CampaignComparison:
        limits = self._limits(base, head)
        noisy = sum(JUDGED[name].by_runs for name in limits) * len(head.rows)
        judging = Judging(comparisons_for(self.alarm_percent, max(noisy, 1)), paired=True)
        rule = (
            "worse: by more than the threshold and beyond chance. Two equal versions are called"
            f" worse at most {self.alarm_percent:g} times in 100, over all cells together"
            " (Student's t over pairs of runs that took turns; Bonferroni); cannot_tell: a"
            " difference of the threshold would not show"
        )
        return compare_campaigns(base, head, limits, judging=judging, rule=rule)

    def _limits(self, base: Side, head: Side) -> dict[str, float]:
        """Return the quantities that count: those asked for, else the speed that both have."""
        if self.limits:
            return dict(self.limits)
        rows = [*base.rows, *head.rows]
        for name in SPEED:
            if rows and all(row["figures"].get(name) is not None for row in rows):
                return {name: THRESHOLDS["samples_per_s"]}
        return {"samples_per_s": THRESHOLDS["samples_per_s"]}

    def _sides(self, seen: Seen) -> dict[str, Side]:
        """Return the rows of each version as a campaign's of its own, named as in the matrix."""
        records = [run.record for run in seen.repeats if run.record is not None]
        by_name: dict[str, list[Row]] = {}
        for row in measured(records)[1]:
            by_name.setdefault(row["cell"], []).append(row)
        sides = {}
        for version, items in zip(self.versions, zip(*self.turns, strict=True), strict=True):
            rows: list[Row] = []
            facts: dict[str, str] = {}
            for item in items:
                found = by_name.get(item.cell.name, [])
                rows += [{**row, "cell": item.shared_name} for row in found]
                facts |= installed_facts(seen.nodes, item.cell.system, item.cell.pin)
            sides[version.label] = Side(version.title, rows, facts)
        return sides


def verdict_of(comparison: CampaignComparison | None) -> str:
    """Return failed, worse, cannot_tell, better or same."""
    if comparison is None:
        return "failed"
    verdicts = {cell.verdict for cell in comparison.cells}
    if comparison.regressions:
        return "worse"
    if comparison.untold:
        return "cannot_tell"
    return "better" if verdicts & {"faster", "better", "less_memory"} else "same"


def _shown(comparison: CampaignComparison, form: str, width: int) -> str:
    if form == "junit":
        return rendering.to_junit(comparison)
    if form == "markdown":
        return rendering.to_markdown(comparison)
    return rendering.to_table(comparison, width)
