"""Runs of a campaign as trials of a search: what each measured, why it may not win. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runner.figures.parity import parity
from runner.study.study import Observation, RunEnding, Unit
from runner.terms.record import Record
from runner.terms.tuning import OBJECTIVES
from runner.tune.knob_candidates import Candidates, RaceCandidate, work_of
from runner.tune.trials import Length, Trial

# Codes of figures/publishable.py with which no candidate wins.
GATES = ("nan", "not_measured", "above_peak")
FEWEST_DRIFTING = 2  # long runs, all of them slower at their end, before a candidate is refused


@dataclass(frozen=True)
class TuneReading:
    """A run of a candidate. `figure` is what the search compares (less is better)."""

    run: Observation
    candidate: str
    length: Length
    ending: RunEnding
    reason: str = ""
    step_s: float | None = None  # mean per counted step
    figure: float | None = None  # step_s per work, or J per token
    memory_mib: float | None = None  # of the fullest device

    @property
    def counts(self) -> bool:
        """Whether it ended ok and may win."""
        return self.ending == "ok"


def readings_of(
    runs: Sequence[Observation], candidates: Candidates, device_mib: float | None
) -> list[TuneReading]:
    """Return the runs of candidates, oldest first."""
    readings = [
        _reading(run, *candidates.by_digest[run.cell], candidates, device_mib)
        for run in runs
        if run.cell in candidates.by_digest
    ]
    return _gated(readings, candidates)


def _reading(
    run: Observation,
    candidate: RaceCandidate,
    length: Length,
    candidates: Candidates,
    device_mib: float | None,
) -> TuneReading:
    reading = TuneReading(run, candidate.id, length, run.ending, run.reason)
    if run.record is None or run.ending in ("lost_node", "failed"):
        return reading
    time_ms, tuning = run.figures["step_time_ms"], candidates.tuning
    step_s = time_ms / 1000 if time_ms else None
    figure = step_s / work_of(candidate.cell(length), tuning) if step_s else None
    if tuning.objective == "energy":
        figure = run.figures["energy_per_token_j"]
    measured = run.record.measurement
    peaks = (measured.memory_used_mib, measured.memory_reserved_mib, measured.memory_allocated_mib)
    memory_mib = next((peak for peak in peaks if peak), measured.memory_rss_mib)
    reading = replace(reading, step_s=step_s, figure=figure, memory_mib=memory_mib)
    if run.ending != "ok":
        return reading
    reasons = [run.gates[code] for code in GATES if code in run.gates]
    reasons += measured.contradicted
    if figure is None and not reasons:
        objective = OBJECTIVES[tuning.objective]
        quantity = "step time" if objective.of_time else objective.unit
        reasons.append(f"no {quantity} was measured")
    if device_mib and memory_mib:
        free, share = 100 * (1 - memory_mib / device_mib), tuning.headroom_percent
        if free < share:
            reasons.append(f"it leaves {free:.1f} % of a device's memory free, below {share:g} %")
    return replace(reading, ending="refused", reason=reasons[0]) if reasons else reading


def _gated(readings: Sequence[TuneReading], candidates: Candidates) -> list[TuneReading]:
    """Refuse candidates that learn something else, or grow slower in each long run."""
    reasons: dict[str, str] = {}
    groups: dict[tuple[str, Length], list[TuneReading]] = {}
    for reading in sorted(readings, key=lambda item: item.length == "long"):
        if reading.counts:
            groups.setdefault((reading.candidate, reading.length), []).append(reading)
    for (id_, length), ours in groups.items():
        system = candidates.by_id[id_].long.system
        base = _baseline(readings, candidates, system, length)
        if base and base != ours:
            repeated = [
                _records(runs)
                for (key, _), runs in groups.items()
                if candidates.by_id[key].long.system == system
            ]
            judged = parity(_records(ours), _records(base), repeated)
            if judged is not None and judged.same is False:
                reasons.setdefault(id_, judged.words)
        drifts = [one.run.figures["drift_percent"] or 0.0 for one in ours if length == "long"]
        if len(drifts) >= FEWEST_DRIFTING and min(drifts) > 0:
            mean = sum(drifts) / len(drifts)
            reasons.setdefault(id_, f"it grows slower: {mean:.1f} % in the second half of its runs")
    last = {reading.candidate: at for at, reading in enumerate(readings) if reading.counts}
    refused = {last[id_]: why for id_, why in reasons.items()}
    return [
        replace(reading, ending="refused", reason=refused[at]) if at in refused else reading
        for at, reading in enumerate(readings)
    ]


def _baseline(
    readings: Sequence[TuneReading], candidates: Candidates, system: str, length: Length
) -> list[TuneReading]:
    """Return the runs that a candidate's loss is compared with: the default's, if it is of the
    same system; else those of the first candidate of that system that ended ok.
    """
    default = candidates.default
    ids = [default.id] if default and default.long.system == system else []
    ids += [
        one.candidate
        for one in readings
        if one.counts and candidates.by_id[one.candidate].long.system == system
    ]
    return [x for x in readings if x.candidate in ids[:1] and x.length == length and x.counts]


def _records(readings: Sequence[TuneReading]) -> list[Record]:
    return [reading.run.record for reading in readings if reading.run.record is not None]


def trials_of(readings: Sequence[TuneReading], candidates: Candidates, unit: Unit) -> list[Trial]:
    """Return the runs as the search takes them, their cost in hours of `unit`.

    A candidate whose short run is its long one made both in one.
    """
    trials = []
    for reading in readings:
        pair = candidates.by_id[reading.candidate]
        each = pair.long.nodes if unit == "node-hours" else pair.long.world_size
        trial = Trial(
            reading.candidate,
            reading.length,
            reading.ending,
            reading.figure,
            float(each) * reading.run.wall_s / 3600,
            reading.memory_mib,
            reading.reason,
        )
        trials.append(trial)
        if pair.short.digest == pair.long.digest and reading.counts:
            trials.append(replace(trial, length="long", cost=0.0))
    return trials
