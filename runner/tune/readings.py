"""The runs of a campaign as trials of a search: what each measured, and why it may not win."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.base.errors import UserError
from runner.figures.measured_cell import MeasuredCell
from runner.figures.parity import parity
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.hidden import ran, repeats_that_ran
from runner.results.records import record_of
from runner.study.observing import ending_of
from runner.tables.build import measured as measured_cells
from runner.tables.row import Row
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import Record
from runner.terms.tuning import OBJECTIVES, Tuning
from runner.tune.knob_candidates import Candidates, RaceCandidate, work_of
from runner.tune.trials import Length, Trial, TrialEnding

# Codes of figures/publishable.py with which no candidate wins.
GATES = ("nan", "not_measured", "above_peak")
FEWEST_DRIFTING = 2  # long runs, all of them slower at their end, before a candidate is refused


@dataclass(frozen=True)
class TuneReading:
    """One run of a candidate that ended. `figure` is what the search compares (less is better)."""

    candidate: str
    length: Length
    repeat: int
    attempt: int
    began: float  # epoch seconds
    ending: TrialEnding
    reason: str = ""
    wall_s: float = 0.0
    step_s: float | None = None  # mean per counted step
    figure: float | None = None  # step_s per work, or J per token
    memory_mib: float | None = None  # of the fullest device
    loss: float | None = None
    drift_percent: float | None = None  # beyond noise; positive: slower at the end
    record: Record | None = field(default=None, compare=False)

    @property
    def counts(self) -> bool:
        """Whether it ended ok and may win."""
        return self.ending == "ok"


class Readings:
    """Reads the runs of a campaign's candidates, each once: a run that ended does not change."""

    def __init__(self, candidates: Candidates, device_mib: float | None) -> None:
        self.candidates, self.device_mib = candidates, device_mib
        self._read: dict[Path, TuneReading | None] = {}

    def of(self, campaign: Campaign, cells: Sequence[Cell]) -> list[TuneReading]:
        """Return the runs that ended, oldest first; `cells` have the ids of their folders."""
        by_digest, there = self.candidates.by_digest, ran(campaign.path)
        candidates_here = {cell.id: by_digest[cell.digest] for cell in cells if cell.id in there}
        readings: list[TuneReading] = []
        for cell_id in candidates_here:
            for repeat in sorted(repeats_that_ran(campaign.path, cell_id)):
                for attempt in campaign.attempts(cell_id, repeat):
                    readings += self._of(attempt, campaign, *candidates_here[cell_id])
        return self._gated(sorted(readings, key=lambda reading: reading.began))

    def _of(
        self, attempt: Attempt, campaign: Campaign, candidate: RaceCandidate, length: Length
    ) -> Iterator[TuneReading]:
        if attempt.path not in self._read:
            outcome = attempt.outcome
            if outcome is None:
                return
            self._read[attempt.path] = self._read_one(attempt, outcome, campaign, candidate, length)
        if (reading := self._read[attempt.path]) is not None:
            yield reading

    def _read_one(
        self,
        attempt: Attempt,
        outcome: Outcome,
        campaign: Campaign,
        candidate: RaceCandidate,
        length: Length,
    ) -> TuneReading | None:
        ending = ending_of(outcome)
        if ending is None:
            return None
        reading = TuneReading(
            *(candidate.id, length, attempt.repeat, attempt.number),
            began=outcome.started_at or attempt.planned_at,
            ending=ending,
            reason=outcome.reason if ending != "ok" else "",
            wall_s=outcome.wall_s,
        )
        if ending in ("lost_node", "failed"):
            return reading
        try:
            (row_cell,), (row,) = measured_cells([record_of(attempt, campaign)])
        except UserError as error:
            return replace(reading, ending="failed", reason=str(error))
        cell, tuning = candidate.cell(length), self.candidates.tuning
        return self._judged(measured(reading, row_cell, row, cell, tuning), row)

    def _judged(self, reading: TuneReading, row: Row) -> TuneReading:
        """Refuse a run whose figures cannot be right, or that leaves too little memory."""
        if reading.ending != "ok":
            return reading
        reasons = [row["verdict_reasons"][code] for code in GATES if code in row["verdict_reasons"]]
        reasons += reading.record.measurement.contradicted if reading.record else ()
        if reading.figure is None and not reasons:
            objective = OBJECTIVES[self.candidates.tuning.objective]
            quantity = "step time" if objective.of_time else objective.unit
            reasons.append(f"no {quantity} was measured")
        share = self.candidates.tuning.headroom_percent
        if self.device_mib and reading.memory_mib:
            free = 100 * (1 - reading.memory_mib / self.device_mib)
            if free < share:
                reasons.append(
                    f"it leaves {free:.1f} % of a device's memory free, below {share:g} %"
                )
        return replace(reading, ending="refused", reason=reasons[0]) if reasons else reading

    def _gated(self, readings: Sequence[TuneReading]) -> list[TuneReading]:
        """Refuse candidates that learn something else, or grow slower in each long run."""
        reasons: dict[str, str] = {}
        groups = _by_candidate(readings)
        for (id_, length), ours in groups.items():
            candidate = self.candidates.by_id[id_]
            base = self._baseline(readings, candidate, length)
            judged = None
            if base and base != ours:
                repeated = [
                    _records(runs)
                    for (key, _), runs in groups.items()
                    if self.candidates.by_id[key].long.system == candidate.long.system
                ]
                judged = parity(_records(ours), _records(base), repeated)
            if judged is not None and judged.same is False:
                reasons.setdefault(id_, judged.words)
            drifts = [reading.drift_percent for reading in ours if length == "long"]
            if len(drifts) >= FEWEST_DRIFTING and all(drift and drift > 0 for drift in drifts):
                mean = sum(drift or 0.0 for drift in drifts) / len(drifts)
                reasons.setdefault(
                    id_, f"it grows slower: {mean:.1f} % in the second half of its runs"
                )
        last_index = {
            reading.candidate: at for at, reading in enumerate(readings) if reading.counts
        }
        refused = {last_index[id_]: why for id_, why in reasons.items()}
        return [
            replace(reading, ending="refused", reason=refused[at]) if at in refused else reading
            for at, reading in enumerate(readings)
        ]

    def _baseline(
        self, readings: Sequence[TuneReading], candidate: RaceCandidate, length: Length
    ) -> list[TuneReading]:
        """Return the runs that a candidate's loss is compared with: the default's, if it is of the
        same system; else those of the first candidate of that system that ended ok.
        """
        default = self.candidates.default
        id_ = default.id if default and default.long.system == candidate.long.system else None
        for reading in readings:
            same = self.candidates.by_id[reading.candidate].long.system == candidate.long.system
            if id_ is None and same and reading.counts:
                id_ = reading.candidate
        return [x for x in readings if x.candidate == id_ and x.length == length and x.counts]


def _by_candidate(readings: Sequence[TuneReading]) -> dict[tuple[str, Length], list[TuneReading]]:
    """Group runs that ended ok; long ones behind the short ones."""
    groups: dict[tuple[str, Length], list[TuneReading]] = {}
    for reading in sorted(readings, key=lambda item: item.length == "long"):
        if reading.counts:
            groups.setdefault((reading.candidate, reading.length), []).append(reading)
    return groups


def _records(readings: Sequence[TuneReading]) -> list[Record]:
    return [reading.record for reading in readings if reading.record is not None]


def measured(
    reading: TuneReading, run: MeasuredCell, row: Row, cell: Cell, tuning: Tuning
) -> TuneReading:
    """Add a run's figures."""
    figures, measurement, drift = row["figures"], run.record.measurement, run.statistics.drift
    time = figures["step_time_ms"]
    step_s = time / 1000 if time else None
    figure = step_s / work_of(cell, tuning) if step_s else None
    if tuning.objective == "energy":
        figure = figures["energy_per_token_j"]
    peaks = (
        measurement.memory_used_mib,
        measurement.memory_reserved_mib,
        measurement.memory_allocated_mib,
    )
    return replace(
        reading,
        step_s=step_s,
        figure=figure,
        memory_mib=next((peak for peak in peaks if peak), measurement.memory_rss_mib),
        loss=figures["final_loss"],
        drift_percent=drift.percent if drift and drift.beyond_noise else None,
        record=run.record,
    )


def trials_of(
    readings: Sequence[TuneReading], candidates: Candidates, per_hour: Mapping[str, float]
) -> list[Trial]:
    """Return the runs as the search takes them; `per_hour` is each candidate's cost of an hour.

    A candidate whose short run is its long one made both in one.
    """
    trials = []
    for reading in readings:
        trial = Trial(
            reading.candidate,
            reading.length,
            reading.ending,
            reading.figure,
            per_hour.get(reading.candidate, 0.0) * reading.wall_s / 3600,
            reading.memory_mib,
            reading.reason,
        )
        trials.append(trial)
        pair = candidates.by_id[reading.candidate]
        if pair.short.digest == pair.long.digest and reading.ending == "ok":
            trials.append(replace(trial, length="long", cost=0.0))
    return trials
