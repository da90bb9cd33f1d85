"""Runs of a campaign as trials of a search: what each measured, why it may not win. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from runner.figures.parity import parity
from runner.study.study import Observation
from runner.terms.record import Record
from runner.terms.tuning import OBJECTIVES
from runner.tune.knob_candidates import Candidates, RaceCandidate, work_of
from runner.tune.trials import Length, Trial

# Codes of figures/publishable.py with which no candidate wins.
GATES = ("nan", "not_measured", "above_peak")
FEWEST_DRIFTING = 2  # long runs, all of them slower at their end, before a candidate is refused


def trials_of(
    runs: Sequence[Observation], candidates: Candidates, device_mib: float | None
) -> list[Trial]:
    """Return the runs of candidates, oldest first.

    A candidate whose short run is its long one made both in one: two trials of one run.
    """
    trials = [
        _trial(run, *candidates.by_digest[run.cell], candidates, device_mib)
        for run in runs
        if run.cell in candidates.by_digest
    ]
    both: list[Trial] = []
    for trial in _gated(trials, candidates):
        pair = candidates.by_id[trial.candidate]
        twin = trial.ending == "ok" and pair.short.digest == pair.long.digest
        both += [trial, replace(trial, length="long")] if twin else [trial]
    return both


def _trial(
    run: Observation,
    candidate: RaceCandidate,
    length: Length,
    candidates: Candidates,
    device_mib: float | None,
) -> Trial:
    trial = Trial(candidate.id, length, run.ending, reason=run.reason, run=run)
    if run.record is None or run.ending in ("lost_node", "failed"):
        return trial
    time_ms, tuning = run.figures["step_time_ms"], candidates.tuning
    figure = time_ms / 1000 / work_of(candidate.cell(length), tuning) if time_ms else None
    if tuning.objective == "energy":
        figure = run.figures["energy_per_token_j"]
    measured = run.record.measurement
    peaks = (measured.memory_used_mib, measured.memory_reserved_mib, measured.memory_allocated_mib)
    memory_mib = next((peak for peak in peaks if peak), measured.memory_rss_mib)
    trial = replace(trial, figure=figure, memory_mib=memory_mib)
    if run.ending != "ok":
        return trial
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
    return replace(trial, ending="refused", reason=reasons[0]) if reasons else trial


def _gated(trials: Sequence[Trial], candidates: Candidates) -> list[Trial]:
    """Refuse candidates that learn something else, or grow slower in each long run."""
    reasons: dict[str, str] = {}
    groups: dict[tuple[str, Length], list[Trial]] = {}
    for trial in sorted(trials, key=lambda item: item.length == "long"):
        if trial.ending == "ok":
            groups.setdefault((trial.candidate, trial.length), []).append(trial)
    for (id_, length), ours in groups.items():
        system = candidates.by_id[id_].long.system
        base = _baseline(trials, candidates, system, length)
        if base and base != ours:
            repeated = [
                _records(runs)
                for (key, _), runs in groups.items()
                if candidates.by_id[key].long.system == system
            ]
            judged = parity(_records(ours), _records(base), repeated)
            if judged is not None and judged.same is False:
                reasons.setdefault(id_, judged.words)
        drifts = [_run_of(one).figures["drift_percent"] or 0.0 for one in ours if length == "long"]
        if len(drifts) >= FEWEST_DRIFTING and min(drifts) > 0:
            mean = sum(drifts) / len(drifts)
            reasons.setdefault(id_, f"it grows slower: {mean:.1f} % in the second half of its runs")
    last = {trial.candidate: at for at, trial in enumerate(trials) if trial.ending == "ok"}
    refused = {last[id_]: why for id_, why in reasons.items()}
    return [
        replace(trial, ending="refused", reason=refused[at]) if at in refused else trial
        for at, trial in enumerate(trials)
    ]


def _baseline(
    trials: Sequence[Trial], candidates: Candidates, system: str, length: Length
) -> list[Trial]:
    """Return the runs that a candidate's loss is compared with: the default's, if it is of the
    same system; else those of the first candidate of that system that ended ok.
    """
    default = candidates.default
    ids = [default.id] if default and default.long.system == system else []
    ids += [
        one.candidate
        for one in trials
        if one.ending == "ok" and candidates.by_id[one.candidate].long.system == system
    ]
    return [
        one
        for one in trials
        if one.candidate in ids[:1] and one.length == length and one.ending == "ok"
    ]


def _records(trials: Sequence[Trial]) -> list[Record]:
    return [record for trial in trials if (record := _run_of(trial).record) is not None]


def _run_of(trial: Trial) -> Observation:
    assert trial.run is not None
    return trial.run
