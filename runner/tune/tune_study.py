"""`tune` as a study: which candidate runs next by the search's policy, and what was found.

The trials of the search are the runs of the campaign; the default runs first, and at the end the
winner, the default and the rule of thumb are compared by long runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from runner.figures.between_runs import MOST_REPEATS as MOST_TOLD
from runner.figures.between_runs import of_values, rate_difference, repeats_to_see
from runner.folder import names
from runner.study.study import Answer, AnswerTable, End, Order, Seen, Unit
from runner.systems.common import estimates
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import OBJECTIVES
from runner.tune.knob_candidates import ITERATIONS, Candidates, RaceCandidate
from runner.tune.readings import TuneReading, readings_of, trials_of
from runner.tune.search import Forecast, NextRun, Search, SearchEnd
from runner.tune.trials import Length, Trial, undisturbed
from runner.tune.winner import commands, winner_matrix

MOST_REPEATS = 20  # of a cell: more than a search ever asks for
COMPARED_RUNS = 3  # long runs of the winner, default and rule of thumb; two give useless intervals
MOST_LOST = 4  # runs of a candidate lost to node failures, before it is not compared any more
MOST_REFUSALS = 5  # reasons why combinations cannot run, told
WORDS: Mapping[str, str] = {
    "default": "the default, with which the winner is compared",
    "explore": "it may be faster",
    "lost_node": "again, since a node was lost",
    "surprise": "again, since it was slower than similar candidates predicted",
    "contradiction": "again, since two of its runs differ",
    "memory": "to check the estimate of memory",
    "race": "long, for the final comparison",
    "compare": "long, to compare the winner with it",
}
ENDS: Mapping[str, str] = {
    "decided": "the winner is faster than each other finalist",
    "equal": "the finalists are equal within the margin; the one with least memory wins",
    "undecided": "the finalists show no difference; the fastest by its mean wins",
    "alone": "one candidate was left in the final race",
    "budget": "the budget ended the search; the fastest so far",
    "none_legal": "no combination of the knobs can run",
    "none_ran": "no candidate ended well",
    "going_on": "the search goes on",
}
COMPARING = "; runs that compare it with the default are left"
OUT = ("refused", "out_of_memory", "failed")  # endings with which no candidate wins
CODES = {"winner": 0, "default_kept": 3, "none": 1, "going_on": 1}
COLUMNS = {
    "candidate": "candidate",
    "state": "state",
    "runs": "runs",
    "measured": "measured",
    "predicted": "predicted",
    "memory_mib": "MiB",
    "reason": "why",
}
STATES = (
    *("winner", "finalist", "tried", "ended early", "refused", "failed"),
    *("predicted out", "not tried"),
)


class TuneStep(NamedTuple):
    """The next run, and what is expected of it: s per step; None if unknown."""

    candidate: RaceCandidate
    length: Length
    why: str
    predicted_s: float | None = None
    end_above_s: float | None = None


class _Found(NamedTuple):
    """How far a search is. Both `step` and `end`: the winner is compared with the default."""

    readings: Sequence[TuneReading]
    trials: Sequence[Trial]
    step: TuneStep | None
    end: SearchEnd | None


class _Gain(NamedTuple):
    """How much faster the winner is than another candidate, in percent of the other's speed."""

    to: str
    candidate: str
    percent: float | None = None
    low: float | None = None
    high: float | None = None
    missing: str = ""

    @property
    def words(self) -> str:
        """`+12.3 % (10.1 to 14.6)`, or why there is no such figure."""
        if self.percent is None:
            return self.missing
        if self.low is None or self.high is None:
            return f"{self.percent:+.1f} % ({self.missing})"
        return f"{self.percent:+.1f} % ({self.low:.1f} to {self.high:.1f})"


@dataclass(frozen=True)
class TuneStudy:
    """A search over the candidates of a matrix on a cluster; its budget is in `unit`."""

    asked: Matrix
    cluster: Cluster
    candidates: Candidates
    search: Search
    unit: Unit = "node-hours"
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Do as Study's."""
        return "tune"

    def matrix(self, seen: Seen) -> Matrix:
        """Do as Study's."""
        return replace(self.asked, cells=self.candidates.cells, repeats=MOST_REPEATS)

    @cached_property
    def _last(self) -> dict[tuple[object, ...], _Found]:
        return {}

    def found(self, seen: Seen) -> _Found:
        """Return how far the search is."""
        key = tuple(seen.runs)
        if key not in self._last:
            readings = readings_of(seen.runs, self.candidates, self.cluster.device_memory_mib)
            trials = trials_of(readings, self.candidates, self.unit)
            self._last.clear()
            self._last[key] = _Found(readings, trials, *self._step(trials))
        return self._last[key]

    def _step(self, trials: Sequence[Trial]) -> tuple[TuneStep | None, SearchEnd | None]:
        """Return the next run, and how the race ended once it has; the default runs first."""
        search, default = self.search, self.candidates.default
        free = search.rules.budget is None or search.rules.budget > 0
        timed = search.knowledge.of_time
        if default and default.id not in {trial.candidate for trial in trials} and free:
            predicted = search.forecasts(trials)[default.id].step_s if timed else None
            return TuneStep(default, "short", "default", predicted), None
        decision = search.next(trials)
        if isinstance(decision, NextRun):
            candidate = self.candidates.by_id[decision.candidate]
            above = decision.end_above_s and decision.end_above_s * candidate.known.work
            predicted = decision.predicted_s * candidate.known.work if timed else None
            step = TuneStep(
                *(candidate, decision.length, decision.why, predicted, above if timed else None)
            )
            return step, None
        for candidate in self._compared(decision.winner) if decision.why != "budget" else ():
            own = [trial for trial in trials if trial.candidate == candidate.id]
            long = sum(trial.length == "long" for trial in own)
            lost = sum(trial.ending == "lost_node" for trial in own)
            out = lost >= MOST_LOST or any(trial.ending in OUT for trial in own)
            if long < COMPARED_RUNS and not out:
                return TuneStep(candidate, "long", "compare"), decision
        return None, decision

    def _compared(self, winner: str | None) -> list[RaceCandidate]:
        """Return the winner, the default and the rule of thumb, each once; none without winner."""
        if winner is None:
            return []
        winning = self.candidates.by_id[winner]
        trio = [winning, self.candidates.default, self.candidates.rule_of_thumb]
        return list({one.id: one for one in trio if one is not None}.values())

    def next(self, seen: Seen) -> Sequence[Order] | End:
        """Do as Study's."""
        found = self.found(seen)
        if found.step is None:
            return End(found.end.why if found.end else "")
        step, expected = found.step, ""
        if step.predicted_s and math.isfinite(step.predicted_s):
            expected = f", predicted {step.predicted_s:.4g} s per step"
        why = f"{step.candidate.name} ({WORDS[step.why]}{expected})"
        return [Order(step.candidate.cell(step.length), why, step.end_above_s)]

    def ahead(self, seen: Seen) -> Sequence[Cell]:
        """Do as Study's: the runs that follow if all take what is predicted now."""
        found, by_id = self.found(seen), self.candidates.by_id
        steps = self.search.rehearse(found.trials)
        cells = [by_id[step.candidate].cell(step.length) for step in steps]
        default = self.candidates.default
        there = {reading.candidate for reading in found.readings}
        there |= {step.candidate for step in steps}
        if default and default.id not in there:
            cells.insert(0, default.short)
        if steps:
            rivals = [default, self.candidates.rule_of_thumb]
            long = {one.id: one.long for one in rivals if one and one.id != steps[-1].candidate}
            cells += [cell for cell in long.values() for _ in range(COMPARED_RUNS)]
        return cells

    def plan(self, seen: Seen) -> tuple[Sequence[str], float | None]:
        """Do as Study's."""
        legal, every = len(self.candidates.legal), len(self.candidates.all)
        notes = [f"{legal} of {every} combinations of the knobs can run", *self._refusals()]
        if not self.search.knowledge.rates.measured:
            notes.append(
                "this machine is not measured yet, so that the number of runs is a guess; the first"
                " `tune` measures it, in a minute or two"
            )
        left = self.ahead(seen)
        seconds = [self._run_s(cell, seen) for cell in dict.fromkeys(map(_iterations, left))]
        known = [each for each in seconds if each is not None]
        return notes, fmean(known) if known and len(known) == len(seconds) else None

    def _run_s(self, iterations: int | None, seen: Seen) -> float | None:
        """Return what a run of the default takes, as it is predicted; None: unknown."""
        default = self.candidates.default or self.candidates.legal[0]
        knowledge, known = self.search.knowledge, default.known
        if iterations and knowledge.of_time and known.layout and knowledge.rates.measured:
            forecast = self.search.forecasts(self.found(seen).trials)[default.id]
            return float(estimates.START_S + iterations * forecast.step_s * known.work)
        estimate = load_system(default.long.system).estimate
        return estimate(default.long, self.cluster).time_s if estimate else None

    def _refusals(self) -> list[str]:
        refusals = self.candidates.refusals
        told = [f"{count} cannot run: {reason}" for reason, count in refusals[:MOST_REFUSALS]]
        more = len(refusals) - MOST_REFUSALS
        return told + ([f"and {more} more reasons"] if more > 0 else [])

    def answer(self, seen: Seen) -> Answer:
        """Do as Study's."""
        found = self.found(seen)
        readings, end = found.readings, found.end
        best = self.candidates.by_id[end.winner] if end and end.winner else None
        gains = self._gains(best, readings) if best else []
        gain = next((one for one in gains if one.to == "the default"), None)
        why = end.why if end else "going_on"
        words = ENDS[why] + (COMPARING if end and found.step else "")
        unit = OBJECTIVES[self.candidates.tuning.objective].unit
        verdict = "none" if end else "going_on"
        kept = best
        sentence = f"no winner: {words}"
        if best:
            verdict = "winner"
            figure = figure_of(best.id, readings)
            measured = f", {figure:.4g} {unit}" if figure else ""
            sentence = f"fastest: {best.name}{measured}; {words}"
            if unsure := self._unsure(best, gain, readings):
                verdict, kept = "default_kept", self.candidates.default
                sentence = f"the default is kept: {unsure}"
        if end and found.step:
            verdict = "going_on"
        rows = self._rows(found, best.id if best and kept is best else None)
        took_s = sum(reading.run.wall_s for reading in readings)
        detail: dict[str, Any] = {
            "objective": self.candidates.tuning.objective,
            "unit": unit,
            "why": why,
            "inventory": self.cluster.name,
            "fingerprint": self.cluster.digest,
            "winner": kept.name if kept else None,
            "figure": figure_of(kept.id, readings) if kept else None,
            "runs": [self._run(reading) for reading in readings],
            "refusals": dict(self.candidates.refusals),
            "took_s": took_s,
            "pays_after": self._pays_after(kept, gain, readings, took_s),
            "commands": commands(self.asked, kept, self.cluster) if kept else [],
            "measured": self._measured(readings),
        }
        by = [
            {"to": f"faster than {one.to}", "by": one.words, "candidate": one.candidate}
            | {"percent": one.percent, "low": one.low, "high": one.high}
            for one in gains
        ]
        return Answer(
            self.kind,
            verdict,
            CODES[verdict],
            sentence,
            tables=(
                AnswerTable(
                    "", {"to": "", "by": "by (95 % interval)", "candidate": "which is"}, tuple(by)
                ),
                AnswerTable(
                    f"Candidates, in {unit}; predicted with all measurements", COLUMNS, tuple(rows)
                ),
            ),
            notes=(*self._faster_refused(rows, kept, readings), *self._told(found, detail)),
            cost_node_hours=sum(reading.run.hours() for reading in readings),
            detail=detail,
            files={names.WINNER: winner_matrix(self.asked, kept)} if kept else {},
        )

    def _told(self, found: _Found, detail: Mapping[str, Any]) -> list[str]:
        notes = self._refusals()
        if found.readings:
            ran = len({reading.candidate for reading in found.readings})
            cost = sum(trial.cost for trial in found.trials)
            notes.append(
                f"search: {len(found.readings)} runs of {ran} of {len(self.candidates.legal)}"
                f" candidates, {cost:.3g} {self.unit}"
            )
        if detail["pays_after"]:
            steps = f"{detail['pays_after']:,} steps"
            notes.append(f"it has paid for itself, beside the default, after {steps}")
        return [*notes, *self.notes]

    def _faster_refused(
        self,
        rows: Sequence[Mapping[str, Any]],
        kept: RaceCandidate | None,
        readings: Sequence[TuneReading],
    ) -> list[str]:
        figure = figure_of(kept.id, readings) if kept else None
        return [
            f"faster, but refused: {row['candidate']}, {row['measured']:.4g}: {row['reason']}"
            for row in rows
            if row["state"] in ("refused", "failed")
            and figure
            and row["measured"]
            and row["measured"] < figure
        ]

    def _run(self, reading: TuneReading) -> dict[str, Any]:
        return {
            "candidate": self.candidates.by_id[reading.candidate].name,
            "length": reading.length,
            "ending": reading.ending,
            "began": reading.run.began,
            "wall_s": reading.run.wall_s,
            "reason": reading.reason,
            "figure": reading.figure,
            "memory_mib": reading.memory_mib,
        }

    def _rows(self, found: _Found, winner: str | None) -> list[dict[str, Any]]:
        """Return the candidates that can run, the winner first."""
        forecasts = self.search.forecasts(found.trials)
        all_known = all(one.known.layout is not None for one in self.candidates.legal)
        # The scale of what is not a time takes a first run.
        timed = self.search.knowledge.of_time and all_known
        rows: list[dict[str, Any]] = []
        for candidate in self.candidates.legal:
            own = [one for one in found.readings if one.candidate == candidate.id]
            forecast = forecasts.get(candidate.id)
            state, reason = _state(candidate, own, forecast, winner)
            rows.append(
                {
                    "candidate": candidate.name,
                    "state": state,
                    "runs": len(own),
                    "measured": figure_of(candidate.id, found.readings),
                    "predicted": forecast.step_s if forecast and (own or timed) else None,
                    "memory_mib": max(
                        (one.memory_mib for one in own if one.memory_mib), default=None
                    ),
                    "reason": reason,
                }
            )
        return sorted(
            rows,
            key=lambda row: (STATES.index(row["state"]), row["measured"] or row["predicted"] or 0),
        )

    def _gains(self, winner: RaceCandidate, readings: Sequence[TuneReading]) -> list[_Gain]:
        """Compare the winner with the default, the rule of thumb and the second."""
        second = _second(winner.id, readings)
        rivals = [
            ("the default", self.candidates.default),
            ("the rule of thumb", self.candidates.rule_of_thumb),
            ("the second", self.candidates.by_id[second] if second else None),
        ]
        present = [(to, rival) for to, rival in rivals if rival is not None]
        return [_gain(to, winner, rival, readings, len(present)) for to, rival in present]

    def _unsure(
        self, best: RaceCandidate, gain: _Gain | None, readings: Sequence[TuneReading]
    ) -> str:
        """Say how many repeats it takes where the fastest by its mean may be no faster than the
        default; empty where it is known to be, or to be equal within the margin.
        """
        default = self.candidates.default
        if not default or not gain or gain.percent is None or gain.low is None or gain.high is None:
            return ""
        margin = self.search.rules.margin_percent
        if not gain.low <= 0 <= gain.high or max(-gain.low, gain.high) <= margin:
            return ""
        ours, theirs = (of_values(figures_of(one.id, readings)) for one in (best, default))
        count = repeats_to_see(ours, theirs, abs(gain.percent))
        return (
            f"{best.name} is fastest by its mean, and perhaps no faster than the default:"
            f" {gain.words}; it takes"
            f" {f'about {count}' if count else f'more than {MOST_TOLD}'} long runs of each to tell"
        )

    def _pays_after(
        self,
        winner: RaceCandidate | None,
        gain: _Gain | None,
        readings: Sequence[TuneReading],
        took_s: float,
    ) -> int | None:
        """Return the steps after which the winner has saved the time of the search, if it does."""
        default = self.candidates.default
        if not winner or not default or not gain or not gain.low or gain.low < 0:
            return None
        ours, theirs = _step_s(winner.id, readings), _step_s(default.id, readings)
        if ours is None or theirs is None or theirs <= ours:
            return None
        return round(took_s / (theirs - ours))

    def _measured(self, readings: Sequence[TuneReading]) -> list[dict[str, Any]]:
        """Return layouts and their step times in s, for later searches on this machine."""
        rows = []
        for candidate in self.candidates.legal:
            step_s = _step_s(candidate.id, readings)
            if candidate.known.layout is not None and step_s is not None:
                layout = asdict(candidate.known.layout)
                rows.append({"system": candidate.long.system, **layout, "step_s": step_s})
        return rows


def _iterations(cell: Cell) -> int | None:
    count: int | None = cell.parameters.get(ITERATIONS)
    return count


def _of(candidate: str, readings: Sequence[TuneReading]) -> list[TuneReading]:
    """Return a candidate's long runs that ended ok; without any its short ones."""
    own = [one for one in readings if one.candidate == candidate and one.figure]
    good = [one for one in own if one.ending in ("ok", "refused")]
    long = [one for one in good if one.length == "long"]
    return long or good or [one for one in own if one.ending == "ended_early"]


def figures_of(candidate: str, readings: Sequence[TuneReading]) -> list[float]:
    """Return the figures by which a candidate is compared."""
    return undisturbed([run.figure for run in _of(candidate, readings) if run.figure])


def figure_of(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    """Return their mean."""
    figures = figures_of(candidate, readings)
    return fmean(figures) if figures else None


def _step_s(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    times = [one.step_s for one in _of(candidate, readings) if one.step_s]
    return fmean(undisturbed(times)) if times else None


def _second(winner: str, readings: Sequence[TuneReading]) -> str | None:
    """Return the fastest other candidate that may win, of those with long runs if there are any."""
    out = {one.candidate for one in readings if one.ending in OUT}
    ids = {one.candidate for one in readings if one.ending == "ok"} - {winner} - out
    long = {id_ for id_ in ids if any(one.length == "long" for one in _of(id_, readings))}
    return min(long or ids, key=lambda id_: figure_of(id_, readings) or 0.0, default=None)


def _gain(
    to: str, ours: RaceCandidate, theirs: RaceCandidate, readings: Sequence[TuneReading], count: int
) -> _Gain:
    if ours.id == theirs.id:
        return _Gain(to, theirs.name, missing="it is the winner")
    our_figures, their_figures = (figures_of(one.id, readings) for one in (ours, theirs))
    if not our_figures or not their_figures:
        why = next((x.reason for x in readings if x.candidate == theirs.id and x.reason), "")
        return _Gain(to, theirs.name, missing=why or "it did not run")
    estimate = rate_difference(of_values(our_figures), of_values(their_figures), comparisons=count)
    low, high = estimate.interval or (None, None)
    return _Gain(to, theirs.name, estimate.percent, low, high, estimate.missing)


def _state(
    candidate: RaceCandidate,
    readings: Sequence[TuneReading],
    forecast: Forecast | None,
    winner: str | None,
) -> tuple[str, str]:
    if candidate.id == winner:
        return "winner", ""
    for ending in OUT:
        for one in readings:
            if one.ending == ending:
                return ("refused" if ending == "refused" else "failed"), one.reason
    if any(one.ending == "ok" and one.length == "long" for one in readings):
        return "finalist", ""
    if any(one.ending == "ok" for one in readings):
        return "tried", ""
    if early := [one for one in readings if one.ending == "ended_early"]:
        return "ended early", early[-1].reason
    if readings:
        return "failed", readings[-1].reason
    if forecast is not None and forecast.predicted_out:
        return "predicted out", "its memory is predicted to exceed a device's"
    return "not tried", ""
