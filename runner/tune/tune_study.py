"""`tune` as a study: which candidate runs next by the search's policy.

The trials of the search are the runs of the campaign; the default runs first, and at the end the
winner and the default are compared by long runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from runner.study.study import Answer, End, Order, Seen
from runner.systems.common import estimates
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.tune.final_race import SearchEnd
from runner.tune.knob_candidates import ITERATIONS, Candidates
from runner.tune.readings import trials_of
from runner.tune.search import NextRun, Search
from runner.tune.trials import OUT, Trial
from runner.tune.tune_answer import Found, answer_of, refusals

MOST_REPEATS = 20  # of a cell: more than a search ever asks for
COMPARED_RUNS = 3  # long runs of the winner and the default; two give useless intervals
MOST_LOST = 4  # runs of a candidate lost to node failures, before it is not compared any more
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


@dataclass(frozen=True)
class TuneStudy:
    """A search over the candidates of a matrix on a cluster."""

    asked: Matrix
    cluster: Cluster
    candidates: Candidates
    search: Search
    notes: tuple[str, ...] = ()
    kind: str = "tune"

    def matrix(self, seen: Seen) -> Matrix:
        """Do as Study's."""
        return replace(self.asked, cells=self.candidates.cells, repeats=MOST_REPEATS)

    @cached_property
    def _last(self) -> dict[tuple[object, ...], Found]:
        return {}

    def found(self, seen: Seen) -> Found:
        """Return how far the search is."""
        key = tuple(seen.runs)
        if key not in self._last:
            trials = trials_of(seen.runs, self.candidates, self.cluster.device_memory_mib)
            self._last.clear()
            self._last[key] = Found(trials, *self._step(trials))
        return self._last[key]

    def _step(self, trials: Sequence[Trial]) -> tuple[NextRun | None, SearchEnd | None]:
        """Return the next run, and how the race ended once it has; the default runs first."""
        default = self.candidates.default
        if default and default.id not in {trial.candidate for trial in trials}:
            predicted = self.search.forecasts(trials)[default.id].step_s
            return NextRun(default.id, "short", "default", predicted), None
        decision = self.search.next(trials)
        if isinstance(decision, NextRun):
            return decision, None
        compared = [decision.winner] if decision.winner else []
        if compared and default and default.id != decision.winner:
            compared.append(default.id)
        for id_ in compared:
            own = [trial for trial in trials if trial.candidate == id_]
            long = sum(trial.length == "long" for trial in own)
            lost = sum(trial.ending == "lost_node" for trial in own)
            out = lost >= MOST_LOST or any(trial.ending in OUT for trial in own)
            if long < COMPARED_RUNS and not out:
                return NextRun(id_, "long", "compare"), decision
        return None, decision

    def next(self, seen: Seen) -> Sequence[Order] | End:
        """Do as Study's."""
        found = self.found(seen)
        if found.step is None:
            return End(found.end.why if found.end else "")
        step, candidate = found.step, self.candidates.by_id[found.step.candidate]
        words, above = WORDS[step.why], None
        if self.search.knowledge.of_time:
            predicted_s = (step.predicted_s or 0.0) * candidate.known.work
            if predicted_s and math.isfinite(predicted_s):
                words += f", predicted {predicted_s:.4g} s per step"
            above = step.end_above_s and step.end_above_s * candidate.known.work
        return [Order(candidate.cell(step.length), f"{candidate.name} ({words})", above)]

    def ahead(self, seen: Seen) -> Sequence[Cell]:
        """Do as Study's: the runs that follow if all take what is predicted now."""
        found, by_id = self.found(seen), self.candidates.by_id
        steps = self.search.rehearse(found.trials)
        cells = [by_id[step.candidate].cell(step.length) for step in steps]
        default = self.candidates.default
        there = {trial.candidate for trial in found.trials} | {step.candidate for step in steps}
        if default and default.id not in there:
            cells.insert(0, default.short)
        if steps and default and default.id != steps[-1].candidate:
            cells += [default.long] * COMPARED_RUNS
        return cells

    def plan(self, seen: Seen) -> tuple[Sequence[str], float | None]:
        """Do as Study's."""
        legal, every = len(self.candidates.legal), len(self.candidates.all)
        notes = [
            f"{legal} of {every} combinations of the knobs can run",
            *refusals(self.candidates),
        ]
        if not self.search.knowledge.rates.measured:
            notes.append(
                "this machine is not measured yet, so that the number of runs is a guess; the first"
                " `tune` measures it, in a minute or two"
            )
        lengths = dict.fromkeys(cell.parameters.get(ITERATIONS) for cell in self.ahead(seen))
        seconds = [self._run_s(iterations, seen) for iterations in lengths]
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

    def answer(self, seen: Seen) -> Answer:
        """Do as Study's."""
        found, search = self.found(seen), self.search
        return answer_of(found, self.candidates, search, self.asked, self.cluster, self.notes)
