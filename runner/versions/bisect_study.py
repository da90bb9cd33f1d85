"""`bisect` as a study: versions in their order, pairs of runs that take turns, builds in between.

Two runs behind each other are a pair, so that what ran says which pairs were made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median
from typing import Any, Literal, NamedTuple

from node.printable import printable
from runner.base.text import counted
from runner.figures.between_runs import CellTimes, RateDifference, of_values, paired_difference
from runner.results.machines import differing, installed_facts
from runner.study.study import (
    Answer,
    AnswerTable,
    Build,
    End,
    Observation,
    Order,
    Seen,
    study_name,
)
from runner.tables.columns import title
from runner.terms.cell import MOST_REPEATS, MOST_RUNS, Cell, Matrix
from runner.versions.noisy_bisection import (
    BisectEnd,
    BisectStep,
    Costs,
    PairGroup,
    PairReading,
    Posterior,
    next_step,
)
from runner.versions.version import (
    Version,
    VersionCell,
    failed_builds,
    refuse_open,
    to_build,
    with_version,
)

MOST_FAILURES = 2  # pairs in which a version's run failed, before it is skipped
SMALLEST_PERCENT = 1.0  # the smallest change that counts
MOST = 600  # runs in all
MOST_ALSO = 30  # packages that differ, told
BUILD_S = 10.0  # until one was timed
NEW_PAIR_S = 5.0  # likewise
RUNS_AHEAD = 30  # a usual bisection
WHY = {
    "ends": "do the ends differ?",
    "halves": "halves what is known",
    "confirms": "confirms the answer",
}
FOUND, NO_CHANGE, GOING_ON = "found", "no_change", "going_on"
CODES = {FOUND: 0, NO_CHANGE: 3, GOING_ON: 1}
# What may have changed: the figures of a run, the first that it has.
FIGURES = {
    "speed": ("samples_per_s", "step_time_ms"),
    "memory": (
        *("memory_used_mib", "memory_reserved_mib", "memory_allocated_mib"),
        "memory_rss_mib",
    ),
}
Figure = Literal["speed", "memory"]


class Placed(NamedTuple):
    """A run, and the place of its version."""

    place: int
    run: Observation


class _Known(NamedTuple):
    """What some runs say. `paired`: two that took turns behind each other, the earlier version's
    first; `single` is the place of a run whose pair lacks the other one.
    """

    paired: Sequence[Placed]
    single: int | None
    skipped: dict[int, str]
    figure: str
    posterior: Posterior
    step: BisectStep | BisectEnd
    stopped: str


@dataclass(frozen=True)
class BisectStudy:
    """A bisection of one cell; `asked` is its matrix."""

    asked: Matrix
    versions: Sequence[Version]
    figure: Figure = "speed"
    confidence: float = 0.99
    kind: str = "bisect"
    _last: dict[object, _Known] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The place of the last version."""
        return len(self.versions) - 1

    @cached_property
    def items(self) -> Sequence[VersionCell]:
        """The cell with each version. Raises UserError."""
        items = [with_version(self.asked.cells[0], one, self.asked.pins) for one in self.versions]
        refuse_open(items)
        return items

    @cached_property
    def _places(self) -> dict[str, int]:
        return {item.cell.digest: at for at, item in enumerate(self.items)}

    def matrix(self, seen: Seen) -> Matrix:
        """Do as Study's: with the versions that are built, or ran."""
        ran, failed = {run.cell for run in seen.runs}, self._skipped_builds(seen)
        cells = tuple(
            item.cell
            for at, item in enumerate(self.items)
            if item.cell.digest in ran or (item.cell.pin in seen.builds and at not in failed)
        )
        return replace(
            self.asked,
            name=study_name(
                self.asked.name, "bisect", *(self.versions[at].suffix for at in (0, -1))
            ),
            cells=cells or self.asked.cells,
            repeats=min(MOST_REPEATS, MOST_RUNS // max(len(cells), 1)),
            seeds=(),
            until_percent=None,
            shuffle_seed=None,
            baseline=None,
            searched=True,
        )

    def next(self, seen: Seen) -> Sequence[Order] | Build | End:
        """Do as Study's."""
        known = self._known(seen)
        if known.stopped or isinstance(known.step, BisectEnd):
            return End(known.stopped)
        step = known.step
        ran = [one.place for one in known.paired]
        places = ({0, self.last, *ran} - known.skipped.keys()) | {step.a, step.b}
        if missing := to_build([self.items[at] for at in sorted(places)], seen):
            return Build(missing)
        turns = [step.a, step.b]
        if (ran.count(step.a) + ran.count(step.b)) % 2:
            turns.reverse()
        if known.single in turns:
            turns.remove(known.single)
        a, b = (self.versions[at].label for at in (step.a, step.b))
        best = max(known.posterior.groups, key=lambda item: item.probability)
        far = f"{self.versions[best.final].label} {best.probability:.0%}"
        why = (
            f"{a} against {b} ({WHY[step.why]}); no change {known.posterior.no_change:.0%},"
            f" {far} so far"
        )
        return [Order(self.items[at].cell, why) for at in turns]

    def _known(self, seen: Seen) -> _Known:
        key = (tuple(seen.runs), tuple(seen.builds.items()))
        if key not in self._last:
            self._last.clear()
            self._last[key] = self._worked_out(seen)
        return self._last[key]

    def _worked_out(self, seen: Seen) -> _Known:
        paired, single = self._paired(seen)
        keys = FIGURES[self.figure]
        figure = next(
            (key for key in keys if any(run.figures.get(key) for _, run in paired)), keys[0]
        )
        skipped = self._skipped(seen, paired, figure)
        inner = skipped.keys() - {0, self.last}
        readings = []
        for a, b in zip(paired[::2], paired[1::2], strict=True):
            earlier, later = value(a.run, figure), value(b.run, figure)
            if earlier and later and not inner & {a.place, b.place}:
                readings.append(PairReading(a.place, b.place, math.log(later / earlier)))
        posterior = Posterior(
            self.last,
            readings,
            [place for place in range(self.last + 1) if place not in inner],
            math.log1p(SMALLEST_PERCENT / 100),
            self.confidence,
        )
        stopped = next(
            (f"{self.versions[at].title}: {skipped[at]}" for at in (0, self.last) if at in skipped),
            "",
        )
        step = next_step(posterior, self._costs(seen, [run for _, run in paired], figure))
        if len(paired) >= MOST and not isinstance(step, BisectEnd):
            stopped = stopped or (
                f"{MOST} runs were made, and it is not sure yet: runs of more steps help"
            )
        return _Known(paired, single, skipped, figure, posterior, step, stopped)

    def _costs(self, seen: Seen, runs: Sequence[Observation], figure: str) -> Costs:
        seconds = [run.wall_s for run in runs if run.wall_s and value(run, figure) is not None]
        builds = [built.seconds for built in seen.builds.values() if not built.failed]
        return Costs(
            2 * median(seconds[-20:]) if seconds else NEW_PAIR_S,
            median(builds) if builds else BUILD_S,
            frozenset(at for at, item in enumerate(self.items) if item.cell.pin in seen.builds),
        )

    def _paired(self, seen: Seen) -> tuple[list[Placed], int | None]:
        """Return the runs of pairs, and the place of a last run without its other one."""
        paired: list[Placed] = []
        single: Placed | None = None
        for run in seen.repeats:
            one = Placed(self._places.get(run.cell, -1), run)
            if one.place < 0:
                continue
            if single is None or single.place == one.place:
                single = one
                continue
            paired += sorted((single, one), key=lambda each: each.place)
            single = None
        return paired, single and single.place

    def _skipped(self, seen: Seen, paired: Sequence[Placed], figure: str) -> dict[int, str]:
        """Return why, of the versions that cannot be built, or whose runs failed too often."""
        failures: dict[int, list[str]] = {}
        for place, run in paired:
            if value(run, figure) is None:
                why = run.reason or f"its log does not show {figure}"
                failures.setdefault(place, []).append(why)
        skipped = {
            at: f"its runs fail: {why[-1]}"
            for at, why in failures.items()
            if len(why) >= MOST_FAILURES
        }
        return self._skipped_builds(seen) | skipped

    def _skipped_builds(self, seen: Seen) -> dict[int, str]:
        failed = failed_builds(self.items, seen)
        return {
            at: f"it cannot be built: {failed[item.cell.pin]}"
            for at, item in enumerate(self.items)
            if item.cell.pin in failed
        }

    def ahead(self, seen: Seen) -> Sequence[Cell]:
        """Do as Study's."""
        known = self._known(seen)
        if known.stopped or isinstance(known.step, BisectEnd):
            return []
        left = max(RUNS_AHEAD - len(seen.runs), 2) // 2
        pair = [self.items[at].cell for at in (known.step.a, known.step.b)]
        return pair * left

    def plan(self, seen: Seen) -> tuple[Sequence[str], float | None]:
        """Do as Study's."""
        first, last = self.versions[0].title, self.versions[-1].title
        return [f"{len(self.versions)} versions from {first} to {last}"], None

    def answer(self, seen: Seen) -> Answer:
        """Do as Study's."""
        known = self._known(seen)
        step, posterior = known.step, known.posterior
        group = step.group if isinstance(step, BisectEnd) else None
        verdict = GOING_ON
        if not known.stopped and isinstance(step, BisectEnd):
            verdict = FOUND if group else NO_CHANGE
        best = None
        if verdict != NO_CHANGE and posterior.readings:
            best = group or max(posterior.groups, key=lambda item: item.probability)
        ends = _difference([r for r in posterior.readings if (r.a, r.b) == (0, self.last)])
        direct = None
        if best is not None:
            of_best = (best.before, best.final)
            direct = _difference([r for r in posterior.readings if (r.a, r.b) == of_best])
        return Answer(
            self.kind,
            verdict,
            CODES[verdict],
            printable(self._sentence(known, verdict, best)),
            tables=(self._table(known),),
            notes=tuple(map(printable, self._notes(seen, known, best, direct, ends))),
            cost_node_hours=sum(run.hours() for run in seen.runs),
            detail={
                "figure": known.figure,
                "smallest_percent": SMALLEST_PERCENT,
                "confidence": self.confidence,
                "earliest": best and best.earliest,
                "final": best and best.final,
                "probability": best.probability if best else 0.0,
                "no_change": posterior.no_change,
                "change": _numbers(direct),
                "ends": _numbers(ends),
                "versions": [
                    {"value": item.value, "label": item.label, "subject": item.subject}
                    | {"skipped": known.skipped.get(at, "")}
                    for at, item in enumerate(self.versions)
                ],
            },
        )

    def _sentence(self, known: _Known, verdict: str, best: PairGroup | None) -> str:
        names = self.versions
        if verdict == NO_CHANGE:
            return (
                f"no change of {SMALLEST_PERCENT:g} % or more from {names[0].title} to"
                f" {names[-1].title}: probability {known.posterior.no_change:.1%}"
            )
        if best is None:
            return "nothing is known yet"
        verb = "changed with" if verdict == FOUND else "probably changed with"
        name = names[best.final].title
        if best.earliest < best.final:
            count = best.final - best.earliest + 1
            name = f"one of {count} versions, {names[best.earliest].title} to {name}"
        cell = self.items[0].shared_name
        of_cell = f" of {cell}" if cell else ""
        return f"{title(known.figure)}{of_cell} {verb} {name}: probability {best.probability:.1%}"

    def _notes(
        self,
        seen: Seen,
        known: _Known,
        best: PairGroup | None,
        direct: RateDifference | None,
        ends: RateDifference | None,
    ) -> list[str]:
        versions, notes = self.versions, []
        if best is not None:
            notes.append(f"before it: {versions[best.before].title}")
        if direct is not None:
            notes.append(f"change there: {_percent(direct)}")
        if ends is not None:
            notes.append(f"from {versions[0].label} to {versions[-1].label}: {_percent(ends)}")
        if _differs(direct, ends):
            notes.append("the ends differ by another amount: a further version may change it, too")
        if best is not None:
            items = [self.items[at].cell for at in (best.before, best.final)]
            facts = [installed_facts(seen.nodes, item.system, item.pin) for item in items]
            also = differing(*facts)[:MOST_ALSO] if all(facts) else []
            notes += [f"installed: {'; '.join(also)}"] if also else []
        ran = len({one.place for one in known.paired})
        runs = counted(len(known.paired), "run")
        notes.append(f"{runs} of {ran} of {len(versions)} versions")
        return [*notes, known.stopped] if known.stopped else notes

    def _table(self, known: _Known) -> AnswerTable:
        """Return the versions that ran or were skipped, with the mean of their figures."""
        found: dict[int, list[float | None]] = {at: [] for at in known.skipped}
        for place, run in known.paired:
            found.setdefault(place, []).append(value(run, known.figure))
        rows: list[dict[str, Any]] = []
        for at in sorted(found):
            good = [each for each in found[at] if each is not None]
            version = {"version": self.versions[at].title, "runs": len(found[at])}
            mean = fmean(good) if good else None
            rows.append({**version, "mean": mean, "skipped": known.skipped.get(at, "")})
        columns = {"version": "version", "runs": "runs", "mean": title(known.figure)}
        if known.skipped:
            columns["skipped"] = "skipped"
        return AnswerTable("", columns, tuple(rows))


def value(run: Observation, figure: str) -> float | None:
    """Return the figure of a run that ended ok; None of another."""
    found = run.figures.get(figure) if run.ending == "ok" else None
    return float(found) if found is not None and found > 0 else None


def _difference(readings: Sequence[PairReading]) -> RateDifference | None:
    """Return the change that pairs measured, with an interval as in `ci`; None without any."""
    if not readings:
        return None
    later = of_values([math.exp(-item.change) for item in readings])
    return paired_difference(later, CellTimes((1.0,) * len(readings)))


def _numbers(difference: RateDifference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {"percent": difference.percent, "interval_percent": list(difference.interval or ())}


def _percent(difference: RateDifference) -> str:
    if not difference.interval:
        return f"{difference.percent:+.2g} %"
    low, high = difference.interval
    return f"{difference.percent:+.2f} % (95 % interval {low:+.2f} to {high:+.2f})"


def _differs(ours: RateDifference | None, theirs: RateDifference | None) -> bool:
    """Whether the change of the version and that of the ends cannot be the same."""
    if not ours or not theirs or not ours.interval or not theirs.interval:
        return False
    return ours.interval[1] < theirs.interval[0] or theirs.interval[1] < ours.interval[0]
