"""What a search found so far, as an answer: who wins, by how much, each candidate's fate. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, NamedTuple

from runner.figures.between_runs import MOST_REPEATS as MOST_TOLD
from runner.figures.between_runs import of_values, rate_difference, repeats_to_see
from runner.folder import names
from runner.study.study import Answer, AnswerTable
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import OBJECTIVES
from runner.tune.final_race import SearchEnd
from runner.tune.knob_candidates import Candidates, RaceCandidate
from runner.tune.search import Forecast, NextRun, Search
from runner.tune.trials import OUT, Trial, undisturbed
from runner.tune.winner import winner_matrix

MOST_REFUSALS = 5  # reasons why combinations cannot run, told
ENDS: Mapping[str, str] = {
    "decided": "the winner is faster than each other finalist",
    "equal": "the finalists are equal within the margin; the one with least memory wins",
    "undecided": "the finalists show no difference; the fastest by its mean wins",
    "alone": "one candidate was left in the final race",
    "none_ran": "no candidate ended well",
    "going_on": "the search goes on",
}
COMPARING = "; runs that compare it with the default are left"
CODES = {"winner": 0, "default_kept": 3, "none": 1, "going_on": 1}
DEFAULT = "faster than the default"
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
Row = dict[str, Any]


class Found(NamedTuple):
    """How far a search is. Both `step` and `end`: the winner is compared with the default."""

    trials: Sequence[Trial]
    step: NextRun | None
    end: SearchEnd | None


def answer_of(
    found: Found,
    candidates: Candidates,
    search: Search,
    asked: Matrix,
    cluster: Cluster,
    notes: Sequence[str],
) -> Answer:
    """Return the answer; before the end, the fastest so far."""
    trials, end = found.trials, found.end
    over = end is not None and found.step is None
    leader = end.winner if end else search.leader(trials)
    best = candidates.by_id[leader] if leader else None
    why, unit = end.why if end else "going_on", OBJECTIVES[candidates.tuning.objective].unit
    words = ENDS[why] + (COMPARING if end and found.step else "")
    verdict, kept, sentence, gains = "none", best, f"no winner: {words}", list[Row]()
    if best:
        gains = _gains(best, candidates, trials)
        verdict, figure = "winner", figure_of(best.id, trials)
        measured = f", {figure:.4g} {unit}" if figure else ""
        sentence = f"fastest{'' if end else ' so far'}: {best.name}{measured}; {words}"
        unsure = _unsure(best, candidates.default, gains, trials, search.margin_percent)
        if over and unsure:
            verdict, kept = "default_kept", candidates.default
            sentence = f"the default is kept: {unsure}"
    verdict = verdict if over else "going_on"
    forecasts, timed = search.forecasts(trials), search.knowledge.of_time
    rows = _rows(candidates, trials, forecasts, best.id if end and best and kept is best else "")
    for row in rows:
        # The scale of what is not a time, or has no layout, takes a first run.
        if not row["runs"] and not (timed and all(one.known.layout for one in candidates.legal)):
            row["predicted"] = None
    runs = list(dict.fromkeys(trial.run for trial in trials if trial.run is not None))
    pays_after = None
    if kept and candidates.default:
        took_s = sum(run.wall_s for run in runs)
        pays_after = _pays_after(kept.id, candidates.default.id, gains, trials, took_s)
    told = [*_faster_refused(rows, kept, trials), *refusals(candidates)]
    if runs:
        ran = len({trial.candidate for trial in trials})
        told.append(
            f"search: {len(runs)} runs of {ran} of {len(candidates.legal)} candidates,"
            f" {sum(run.hours() for run in runs):.3g} node-hours"
        )
    if pays_after:
        told.append(f"it has paid for itself, beside the default, after {pays_after:,} steps")
    return Answer(
        "tune",
        verdict,
        CODES[verdict],
        sentence,
        tables=(
            AnswerTable(
                "", {"to": "", "by": "by (95 % interval)", "candidate": "which is"}, tuple(gains)
            ),
            AnswerTable(
                f"Candidates, in {unit}; predicted with all measurements", COLUMNS, tuple(rows)
            ),
        ),
        notes=(*told, *notes),
        cost_node_hours=sum(run.hours() for run in runs),
        detail={
            "objective": candidates.tuning.objective,
            "unit": unit,
            "why": why,
            "fingerprint": cluster.digest,
            "winner": kept.name if kept else None,
            "figure": figure_of(kept.id, trials) if kept else None,
            "pays_after": pays_after,
            "measured": _measured(candidates, trials),
        },
        files={names.WINNER: winner_matrix(asked, kept)} if kept else {},
    )


def refusals(candidates: Candidates) -> list[str]:
    """Say why combinations cannot run."""
    told = [f"{count} cannot run: {why}" for why, count in candidates.refusals[:MOST_REFUSALS]]
    more = len(candidates.refusals) - MOST_REFUSALS
    return told + ([f"and {more} more reasons"] if more > 0 else [])


def _faster_refused(
    rows: Sequence[Row], kept: RaceCandidate | None, trials: Sequence[Trial]
) -> list[str]:
    figure = figure_of(kept.id, trials) if kept else None
    return [
        f"faster, but refused: {row['candidate']}, {row['measured']:.4g}: {row['reason']}"
        for row in rows
        if row["state"] in ("refused", "failed")
        and figure
        and row["measured"]
        and row["measured"] < figure
    ]


def _rows(
    candidates: Candidates,
    trials: Sequence[Trial],
    forecasts: Mapping[str, Forecast],
    winner: str,
) -> list[Row]:
    """Return the candidates that can run, the winner first."""
    rows: list[Row] = []
    for candidate in candidates.legal:
        own = [trial for trial in trials if trial.candidate == candidate.id]
        forecast = forecasts[candidate.id]
        state, reason = _state(own, forecast) if candidate.id != winner else ("winner", "")
        memory_mib = [trial.memory_mib for trial in own if trial.memory_mib]
        row = {"candidate": candidate.name, "state": state, "runs": len({one.run for one in own})}
        row |= {"measured": figure_of(candidate.id, trials), "predicted": forecast.step_s}
        rows.append(row | {"memory_mib": max(memory_mib, default=None), "reason": reason})
    return sorted(
        rows,
        key=lambda row: (STATES.index(row["state"]), row["measured"] or row["predicted"] or 0),
    )


def _state(trials: Sequence[Trial], forecast: Forecast) -> tuple[str, str]:
    """Return a candidate's state, and why."""
    for ending in OUT:
        for trial in trials:
            if trial.ending == ending:
                return ("refused" if ending == "refused" else "failed"), trial.reason
    if good := [trial for trial in trials if trial.ending == "ok"]:
        return ("finalist" if any(one.length == "long" for one in good) else "tried"), ""
    if early := [trial for trial in trials if trial.ending == "ended_early"]:
        return "ended early", early[-1].reason
    if trials:
        return "failed", trials[-1].reason
    if forecast.predicted_out:
        return "predicted out", "its memory is predicted to exceed a device's"
    return "not tried", ""


def _gains(best: RaceCandidate, candidates: Candidates, trials: Sequence[Trial]) -> list[Row]:
    """Compare the fastest with the default and the second."""
    second = candidates.by_id.get(_second(best.id, trials) or "")
    rivals = {DEFAULT: candidates.default, "faster than the second": second}
    present = {to: rival for to, rival in rivals.items() if rival is not None}
    return [
        {"to": to, **_gain(best, rival, trials, len(present)), "candidate": rival.name}
        for to, rival in present.items()
    ]


def _gain(
    ours: RaceCandidate, theirs: RaceCandidate, trials: Sequence[Trial], comparisons: int
) -> Row:
    """Return how much faster one is, in percent of the other's speed, with a 95 % interval."""
    unknown = {"percent": None, "low": None, "high": None}
    if ours.id == theirs.id:
        return {"by": "it is the fastest", **unknown}
    our_figures, their_figures = (figures_of(one.id, trials) for one in (ours, theirs))
    if not our_figures or not their_figures:
        why = next((one.reason for one in trials if one.candidate == theirs.id and one.reason), "")
        return {"by": why or "it did not run", **unknown}
    estimate = rate_difference(
        of_values(our_figures), of_values(their_figures), comparisons=comparisons
    )
    low, high = estimate.interval or (None, None)
    interval = f"{low:.1f} to {high:.1f}" if estimate.interval else estimate.missing
    by = f"{estimate.percent:+.1f} % ({interval})"
    return {"by": by, "percent": estimate.percent, "low": low, "high": high}


def _unsure(
    best: RaceCandidate,
    default: RaceCandidate | None,
    gains: Sequence[Row],
    trials: Sequence[Trial],
    margin_percent: float,
) -> str:
    """Say how many repeats it takes where the fastest by its mean may be no faster than the
    default; empty where it is known to be, or to be equal within the margin.
    """
    gain = next((row for row in gains if row["to"] == DEFAULT and row["low"] is not None), None)
    if not default or not gain or not gain["low"] <= 0 <= gain["high"]:
        return ""
    if max(-gain["low"], gain["high"]) <= margin_percent:
        return ""
    ours, theirs = (of_values(figures_of(one.id, trials)) for one in (best, default))
    count = repeats_to_see(ours, theirs, abs(gain["percent"]))
    return (
        f"{best.name} is fastest by its mean, and perhaps no faster than the default:"
        f" {gain['by']}; it takes"
        f" {f'about {count}' if count else f'more than {MOST_TOLD}'} long runs of each to tell"
    )


def _pays_after(
    winner: str, default: str, gains: Sequence[Row], trials: Sequence[Trial], took_s: float
) -> int | None:
    """Return the steps after which the winner has saved the time of the search, if it does."""
    sure = any(row["to"] == DEFAULT and (row["low"] or 0) > 0 for row in gains)
    ours, theirs = _step_s(winner, trials), _step_s(default, trials)
    if not sure or ours is None or theirs is None or theirs <= ours:
        return None
    return round(took_s / (theirs - ours))


def _measured(candidates: Candidates, trials: Sequence[Trial]) -> list[Row]:
    """Return layouts and their step times in s, for later searches on this machine."""
    pairs = [(one, one.known.layout, _step_s(one.id, trials)) for one in candidates.legal]
    return [
        {"system": one.long.system, **asdict(layout), "step_s": step_s}
        for one, layout, step_s in pairs
        if layout is not None and step_s is not None
    ]


def _of(candidate: str, trials: Sequence[Trial]) -> list[Trial]:
    """Return a candidate's long runs that ended ok; without any its short ones."""
    own = [one for one in trials if one.candidate == candidate and one.figure]
    good = [one for one in own if one.ending in ("ok", "refused")]
    long = [one for one in good if one.length == "long"]
    return long or good or [one for one in own if one.ending == "ended_early"]


def figures_of(candidate: str, trials: Sequence[Trial]) -> list[float]:
    """Return the figures by which a candidate is compared."""
    return undisturbed([one.figure for one in _of(candidate, trials) if one.figure])


def figure_of(candidate: str, trials: Sequence[Trial]) -> float | None:
    """Return their mean."""
    figures = figures_of(candidate, trials)
    return fmean(figures) if figures else None


def _step_s(candidate: str, trials: Sequence[Trial]) -> float | None:
    """Return the mean time of a step in s, whatever the objective."""
    runs = [trial.run for trial in _of(candidate, trials) if trial.run is not None]
    times_ms = [time for run in runs if (time := run.figures["step_time_ms"])]
    return fmean(undisturbed(times_ms)) / 1000 if times_ms else None


def _second(winner: str, trials: Sequence[Trial]) -> str | None:
    """Return the fastest other candidate that may win, of those with long runs if there are any."""
    out = {one.candidate for one in trials if one.ending in OUT}
    ids = {one.candidate for one in trials if one.ending == "ok"} - {winner} - out
    long = {id_ for id_ in ids if any(one.length == "long" for one in _of(id_, trials))}
    return min(long or ids, key=lambda id_: figure_of(id_, trials) or 0.0, default=None)
