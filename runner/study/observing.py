"""Runs of a campaign as observations, each read once: a run that ended does not change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from node.causes import Cause, cause_named
from runner.base.errors import UserError
from runner.figures.cell_figures import cell_figures
from runner.figures.measured_cell import measured_cell
from runner.figures.publishable import CellEvidence, verdict
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.hidden import ran, repeats_that_ran
from runner.results.decide import is_finished
from runner.results.records import record_of
from runner.study.study import Built, Observation, RunEnding, Seen
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome

# Endings that say nothing of the cell, and that no node is to blame for.
NOTHING = frozenset(
    (
        *(Cause.INTERRUPTED, Cause.STOPPED, Cause.CONTROL_LOST, Cause.CANCELLED),
        *(Cause.PREEMPTED, Cause.REQUEUED, Cause.DEADLINE, Cause.JOB_TIME_LIMIT),
    )
)
OUT_OF_MEMORY = "out_of_memory"


@dataclass
class Observer:
    """Reads the runs of a campaign."""

    campaign: Campaign
    _read: dict[Path, Observation | None] = field(default_factory=dict)

    def seen(self, builds: Mapping[str, Built]) -> Seen:
        """Return what a study decides by."""
        if not self.campaign.begun:
            return Seen((), builds)
        runs = sorted(self._runs(), key=lambda run: run.began)
        return Seen(runs, builds, self.campaign.inspections())

    def _runs(self) -> Iterator[Observation]:
        settings, there = self.campaign.settings, ran(self.campaign.path)
        for cell in (*settings.cells, *settings.hidden):
            if cell.id not in there:
                continue
            for repeat in sorted(repeats_that_ran(self.campaign.path, cell.id)):
                for attempt in self.campaign.attempts(cell.id, repeat):
                    if (run := self._of(attempt, cell)) is not None:
                        yield run

    def _of(self, attempt: Attempt, cell: Cell) -> Observation | None:
        if attempt.path not in self._read:
            outcome = attempt.outcome
            if outcome is None:
                return None
            self._read[attempt.path] = self._read_one(attempt, outcome, cell)
        return self._read[attempt.path]

    def _read_one(self, attempt: Attempt, outcome: Outcome, cell: Cell) -> Observation | None:
        ending = ending_of(outcome)
        if ending is None:
            return None
        run = Observation(
            *(cell.digest, attempt.repeat, attempt.number),
            began=outcome.started_at or attempt.planned_at,
            wall_s=outcome.wall_s,
            nodes=cell.nodes,
            devices=cell.world_size,
            ending=ending,
            final=is_finished(outcome),
            reason=outcome.reason if ending != "ok" else "",
        )
        try:
            record = record_of(attempt, self.campaign)
        except UserError as error:
            return replace(run, ending="failed", reason=str(error)) if ending == "ok" else run
        measured = measured_cell([record])
        figures = cell_figures(measured)[0]
        evidence = CellEvidence([record], measured.statistics, mfu_percent=figures["mfu_percent"])
        drift = measured.statistics.drift
        figures["drift_percent"] = drift.percent if drift and drift.beyond_noise else None
        return replace(run, figures=figures, gates=verdict(evidence), record=record)


def ending_of(outcome: Outcome) -> RunEnding | None:
    """Say how a run ended; None where that says nothing."""
    cause = cause_named(outcome.cause)
    if outcome.status == "ok":
        return "ok"
    if outcome.diagnosis == OUT_OF_MEMORY or cause == Cause.OUT_OF_MEMORY:
        return "out_of_memory"
    if cause == Cause.ENDED_EARLY:
        return "ended_early"
    if cause in NOTHING:
        return None
    if cause is not None and cause.again:
        return "lost_node"
    return "refused" if outcome.status == "diverged" else "failed"
