"""Decide what runs next in a campaign with `tune`: the search's policy, one real run at a time."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.hidden import ran, repeats_that_ran
from runner.launch.engine import Wanted
from runner.results.decide import is_finished
from runner.study.early_end import ended_early
from runner.study.running import LOST_IN_A_ROW
from runner.terms.cell import Cell, Matrix
from runner.terms.run import Run
from runner.tune.beliefs import Knowledge
from runner.tune.knob_candidates import Candidates, RaceCandidate
from runner.tune.readings import Readings, TuneReading, trials_of
from runner.tune.search import NextRun, Search, SearchEnd, TuneRules
from runner.tune.trials import Length, Trial

Repeat = tuple[Cell, int]
MOST_REPEATS = 20  # of a cell: more than a search ever asks for
COMPARED_RUNS = 3  # long runs of the winner, default and rule of thumb; two give useless intervals
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
class Step:
    """The next run, and what is expected of it: s per step; None if unknown."""

    candidate: RaceCandidate
    length: Length
    why: str
    predicted_s: float | None = None
    end_above_s: float | None = None


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is: its runs, their trials, the next step, and how the race ended.

    Both `step` and `end`: the race is over, and the winner is compared with the default.
    """

    readings: Sequence[TuneReading]
    trials: Sequence[Trial]
    step: Step | None
    end: SearchEnd | None
    stopped: str = ""  # why it stops early; the same command resumes it


@dataclass
class TuneSource:
    """Says which runs of a campaign come next (launch/repeating.py: RunSource)."""

    candidates: Candidates
    knowledge: Knowledge
    rules: TuneRules
    time_limit_s: float
    device_mib: float | None
    per_hour: Mapping[str, float]  # what an hour of each candidate costs, in the budget's unit
    saved: Callable[[Campaign, "SearchProgress"], object] = lambda *_: None  # after each look
    found: SearchProgress | None = None
    asked: list[tuple[str, int]] = field(default_factory=list)  # cells' ids, of this session

    @cached_property
    def search(self) -> Search:
        """The search over all candidates."""
        return Search(
            [candidate.known for candidate in self.candidates.all], self.knowledge, self.rules
        )

    @cached_property
    def readings(self) -> Readings:
        """The reader of the campaign's runs."""
        return Readings(self.candidates, self.device_mib)

    def begun(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the repeats that are finished; the search asks again for interrupted ones."""
        cell_ids = ran(campaign.path)
        finished = []
        for cell in cells:
            for number in sorted(
                repeats_that_ran(campaign.path, cell.id) if cell.id in cell_ids else ()
            ):
                attempts = campaign.attempts(cell.id, number)
                if attempts and is_finished(attempts[-1].outcome):
                    finished.append((cell, number))
        return finished

    def more(self, campaign: Campaign, matrix: Matrix, cells: Sequence[Cell]) -> list[Repeat]:
        """List the next run; nothing once the search has ended."""
        self.found = self.look(campaign, cells)
        self.saved(campaign, self.found)
        step = self.found.step
        if step is None:
            return []
        by_digest = {cell.digest: cell for cell in cells}
        cell = by_digest[step.candidate.cell(step.length).digest]
        number = _next_repeat(campaign, cell)
        if number > MOST_REPEATS:
            self.found = replace(self.found, step=None, stopped=f"{cell.name} has run too often")
            return []
        self.asked.append((cell.id, number))
        return [(cell, number)]

    def look(self, campaign: Campaign, cells: Sequence[Cell]) -> SearchProgress:
        """Read the campaign and let the policy choose the next run."""
        readings = self.readings.of(campaign, cells)
        trials = trials_of(readings, self.candidates, self.per_hour)
        if stopped := self._lost(readings):
            return SearchProgress(readings, trials, None, None, stopped)
        step, end = next_step(self.search, self.candidates, trials)
        return SearchProgress(readings, trials, step, end)

    def _lost(self, readings: Sequence[TuneReading]) -> str:
        """Say why no further run can be carried out, after several in a row of this session."""
        last_readings = readings[-min(LOST_IN_A_ROW, len(self.asked)) :] if self.asked else []
        if len(last_readings) < LOST_IN_A_ROW or any(
            reading.ending != "lost_node" for reading in last_readings
        ):
            return ""
        return (
            f"{LOST_IN_A_ROW} runs in a row could not be carried out: {last_readings[-1].reason};"
            " look at the nodes, then run the same command to go on"
        )

    def said(self, todo: Sequence[Repeat]) -> str:
        """Return a line on the next run."""
        step = self.found.step if self.found else None
        if step is None:
            return ""
        expected = ""
        if step.predicted_s and math.isfinite(step.predicted_s):
            expected = f", predicted {step.predicted_s:.4g} s per step"
        return f"next: {step.candidate.name} ({WORDS[step.why]}{expected})"

    def wanted(self, todo: Sequence[Repeat], cells: Sequence[Cell]) -> tuple[Wanted, list[Cell]]:
        """Return the runs that are probably left, to hold nodes for, and all cells to prepare."""
        trials = self.found.trials if self.found else []
        runs_left = len(self.search.rehearse(trials)) + 2 * COMPARED_RUNS
        largest = sorted(cells, key=lambda cell: -cell.nodes)
        return Wanted((largest * runs_left)[:runs_left], self.time_limit_s), list(cells)

    def watching(self, attempt: Attempt, run: Run) -> AbstractContextManager[None]:
        """End a run that is much slower than the fastest so far."""
        step = self.found.step if self.found else None
        above = step.end_above_s if step else None
        return ended_early(attempt, run, above)


def _next_repeat(campaign: Campaign, cell: Cell) -> int:
    """Return the repeat to run: the last one again if it did not finish."""
    numbers = repeats_that_ran(campaign.path, cell.id)
    if not numbers:
        return 1
    newest = max(numbers)
    attempts = campaign.attempts(cell.id, newest)
    return newest + 1 if attempts and is_finished(attempts[-1].outcome) else newest


def next_step(
    search: Search, candidates: Candidates, trials: Sequence[Trial]
) -> tuple[Step | None, SearchEnd | None]:
    """Return the next run, and how the race ended once it has; the default runs first. Pure."""
    default = candidates.default
    started = {trial.candidate for trial in trials if trial.ending != "lost_node"}
    lost = {trial.candidate for trial in trials}
    free = search.rules.budget is None or search.rules.budget > 0
    timed = search.knowledge.of_time
    if default and default.id not in started | lost and free:
        predicted = (
            search.forecasts(trials)[default.id].step_s if search.knowledge.of_time else None
        )
        return Step(default, "short", "default", predicted), None
    decision = search.next(trials)
    if isinstance(decision, NextRun):
        candidate = candidates.by_id[decision.candidate]
        above = decision.end_above_s and decision.end_above_s * candidate.known.work
        predicted = decision.predicted_s * candidate.known.work if timed else None
        return Step(
            candidate, decision.length, decision.why, predicted, above if timed else None
        ), None
    for candidate in compared(candidates, decision.winner) if decision.why != "budget" else ():
        long = [
            trial for trial in trials if trial.candidate == candidate.id and trial.length == "long"
        ]
        if len(long) < COMPARED_RUNS and not _out(candidate.id, trials):
            return Step(candidate, "long", "compare"), decision
    return None, decision


def compared(candidates: Candidates, winner: str | None) -> list[RaceCandidate]:
    """Return the winner, the default and the rule of thumb, each once; nothing without a winner."""
    if winner is None:
        return []
    trio = [candidates.by_id[winner], candidates.default, candidates.rule_of_thumb]
    return list({candidate.id: candidate for candidate in trio if candidate is not None}.values())


def _out(candidate: str, trials: Sequence[Trial]) -> bool:
    """Whether a candidate is out of the comparison: its runs failed, or were lost too often."""
    own_trials = [trial for trial in trials if trial.candidate == candidate]
    lost = sum(trial.ending == "lost_node" for trial in own_trials)
    return lost >= LOST_IN_A_ROW or any(
        trial.ending in ("failed", "refused", "out_of_memory") for trial in own_trials
    )


Unit = Literal["node-hours", "device-hours"]


def costs(candidates: Candidates, unit: Unit) -> dict[str, float]:
    """Return what an hour of each candidate costs."""
    return {
        candidate.id: float(
            candidate.long.nodes if unit == "node-hours" else candidate.long.world_size
        )
        for candidate in candidates.legal
    }
