"""What a search found so far, as an answer: who wins, by how much, each candidate's fate. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

import yaml

from runner.figures.between_runs import MOST_REPEATS as MOST_TOLD
from runner.figures.between_runs import of_values, rate_difference, repeats_to_see
from runner.folder import names
from runner.matrix.dialect import read_yaml
from runner.study.study import Answer, AnswerTable
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import OBJECTIVES
from runner.tune.final_race import SearchEnd
from runner.tune.knob_candidates import Candidates, RaceCandidate
from runner.tune.search import Forecast, NextRun, Search
from runner.tune.trials import OUT, Trial, undisturbed

REPEATS = 3  # of the winner, in its matrix
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


@dataclass(frozen=True)
class _One:
    """A candidate with its runs."""

    candidate: RaceCandidate
    trials: Sequence[Trial]

    @cached_property
    def compared(self) -> list[Trial]:
        """Its long runs that ended ok; without any its short ones."""
        own = [trial for trial in self.trials if trial.figure]
        good = [trial for trial in own if trial.ending in ("ok", "refused")]
        long = [trial for trial in good if trial.length == "long"]
        return long or good or [trial for trial in own if trial.ending == "ended_early"]

    @cached_property
    def figures(self) -> list[float]:
        """The figures by which it is compared."""
        return undisturbed([trial.figure for trial in self.compared if trial.figure])

    @property
    def figure(self) -> float | None:
        """Their mean."""
        return fmean(self.figures) if self.figures else None

    @property
    def step_s(self) -> float | None:
        """The mean time of a step in s, whatever the objective."""
        runs = [trial.run for trial in self.compared if trial.run is not None]
        times_ms = [time for run in runs if (time := run.figures["step_time_ms"])]
        return fmean(undisturbed(times_ms)) / 1000 if times_ms else None

    def state(self, forecast: Forecast) -> tuple[str, str]:
        """Return what became of it, and why."""
        for ending in OUT:
            for trial in self.trials:
                if trial.ending == ending:
                    return ("refused" if ending == "refused" else "failed"), trial.reason
        if good := [trial for trial in self.trials if trial.ending == "ok"]:
            return ("finalist" if any(one.length == "long" for one in good) else "tried"), ""
        if early := [trial for trial in self.trials if trial.ending == "ended_early"]:
            return "ended early", early[-1].reason
        if self.trials:
            return "failed", self.trials[-1].reason
        if forecast.predicted_out:
            return "predicted out", "its memory is predicted to exceed a device's"
        return "not tried", ""

    def row(self, forecast: Forecast, *, wins: bool, predicted: bool) -> Row:
        """Return its row of the table; `predicted`: its figure can be predicted before it runs."""
        state, reason = ("winner", "") if wins else self.state(forecast)
        return {
            "candidate": self.candidate.name,
            "state": state,
            "runs": len({trial.run for trial in self.trials}),
            "measured": self.figure,
            "predicted": forecast.step_s if self.trials or predicted else None,
            "memory_mib": max(
                (one.memory_mib for one in self.trials if one.memory_mib), default=None
            ),
            "reason": reason,
        }


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
    ones = {
        one.id: _One(one, [trial for trial in trials if trial.candidate == one.id])
        for one in candidates.legal
    }
    default = ones[candidates.default.id] if candidates.default else None
    over = end is not None and found.step is None
    leader = end.winner if end else search.leader(trials)
    best = ones[leader] if leader else None
    why, unit = end.why if end else "going_on", OBJECTIVES[candidates.tuning.objective].unit
    words = ENDS[why] + (COMPARING if end and found.step else "")
    verdict, kept, sentence, gains = "none", best, f"no winner: {words}", list[Row]()
    if best:
        gains = _gains(best, default, _second(best, ones.values()))
        measured = f", {best.figure:.4g} {unit}" if best.figure else ""
        verdict = "winner"
        sentence = f"fastest{'' if end else ' so far'}: {best.candidate.name}{measured}; {words}"
        unsure = _unsure(best, default, gains, search.margin_percent)
        if over and unsure:
            verdict, kept, sentence = "default_kept", default, f"the default is kept: {unsure}"
    verdict = verdict if over else "going_on"
    # The scale of what is not a time, or has no layout, takes a first run.
    predicted = search.knowledge.of_time and all(one.known.layout for one in candidates.legal)
    forecasts = search.forecasts(trials)
    winner = kept if end and kept is best else None
    rows = [
        one.row(forecasts[id_], wins=one is winner, predicted=predicted)
        for id_, one in ones.items()
    ]
    rows.sort(
        key=lambda row: (STATES.index(row["state"]), row["measured"] or row["predicted"] or 0)
    )
    runs = list(dict.fromkeys(trial.run for trial in trials if trial.run is not None))
    cost = sum(run.hours() for run in runs)
    pays_after = _pays_after(kept, default, gains, sum(run.wall_s for run in runs))
    told = [
        f"faster, but refused: {row['candidate']}, {row['measured']:.4g}: {row['reason']}"
        for row in rows
        if row["state"] in ("refused", "failed") and kept and kept.figure
        if row["measured"] and row["measured"] < kept.figure
    ]
    told += refusals(candidates)
    if runs:
        ran = sum(bool(one.trials) for one in ones.values())
        told.append(
            f"search: {len(runs)} runs of {ran} of {len(ones)} candidates, {cost:.3g} node-hours"
        )
    if pays_after:
        told.append(f"it has paid for itself, beside the default, after {pays_after:,} steps")
    times = [(one.candidate, one.candidate.known.layout, one.step_s) for one in ones.values()]
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
        cost_node_hours=cost,
        detail={
            "objective": candidates.tuning.objective,
            "unit": unit,
            "why": why,
            "fingerprint": cluster.digest,
            "winner": kept.candidate.name if kept else None,
            "figure": kept.figure if kept else None,
            "pays_after": pays_after,
            "measured": [  # for later searches on this machine
                {"system": candidate.long.system, **asdict(layout), "step_s": step_s}
                for candidate, layout, step_s in times
                if layout is not None and step_s is not None
            ],
        },
        files={names.WINNER: winner_matrix(asked, kept.candidate)} if kept else {},
    )


def refusals(candidates: Candidates) -> list[str]:
    """Say why combinations cannot run."""
    told = [f"{count} cannot run: {why}" for why, count in candidates.refusals[:MOST_REFUSALS]]
    more = len(candidates.refusals) - MOST_REFUSALS
    return told + ([f"and {more} more reasons"] if more > 0 else [])


def _second(best: _One, ones: Iterable[_One]) -> _One | None:
    """Return the fastest other candidate that may win, of those with long runs if there are any."""
    may_win = [
        one
        for one in ones
        if one is not best
        and any(trial.ending == "ok" for trial in one.trials)
        and not any(trial.ending in OUT for trial in one.trials)
    ]
    long = [one for one in may_win if any(trial.length == "long" for trial in one.compared)]
    return min(long or may_win, key=lambda one: one.figure or 0.0, default=None)


def _gains(best: _One, default: _One | None, second: _One | None) -> list[Row]:
    """Compare the fastest with the default and the second."""
    rivals = {DEFAULT: default, "faster than the second": second}
    present = {to: rival for to, rival in rivals.items() if rival is not None}
    return [
        {"to": to, **_gain(best, rival, len(present)), "candidate": rival.candidate.name}
        for to, rival in present.items()
    ]


def _gain(ours: _One, theirs: _One, comparisons: int) -> Row:
    """Return how much faster one is, in percent of the other's speed, with a 95 % interval."""
    unknown = {"percent": None, "low": None, "high": None}
    if ours is theirs:
        return {"by": "it is the fastest", **unknown}
    if not ours.figures or not theirs.figures:
        why = next((trial.reason for trial in theirs.trials if trial.reason), "it did not run")
        return {"by": why, **unknown}
    estimate = rate_difference(
        of_values(ours.figures), of_values(theirs.figures), comparisons=comparisons
    )
    low, high = estimate.interval or (None, None)
    interval = f"{low:.1f} to {high:.1f}" if estimate.interval else estimate.missing
    by = f"{estimate.percent:+.1f} % ({interval})"
    return {"by": by, "percent": estimate.percent, "low": low, "high": high}


def _unsure(best: _One, default: _One | None, gains: Sequence[Row], margin_percent: float) -> str:
    """Say how many repeats it takes where the fastest by its mean may be no faster than the
    default; empty where it is known to be, or to be equal within the margin.
    """
    gain = next((row for row in gains if row["to"] == DEFAULT and row["low"] is not None), None)
    if not default or not gain or not gain["low"] <= 0 <= gain["high"]:
        return ""
    if max(-gain["low"], gain["high"]) <= margin_percent:
        return ""
    ours, theirs = of_values(best.figures), of_values(default.figures)
    count = repeats_to_see(ours, theirs, abs(gain["percent"]))
    return (
        f"{best.candidate.name} is fastest by its mean, and perhaps no faster than the default:"
        f" {gain['by']}; it takes"
        f" {f'about {count}' if count else f'more than {MOST_TOLD}'} long runs of each to tell"
    )


def _pays_after(
    winner: _One | None, default: _One | None, gains: Sequence[Row], took_s: float
) -> int | None:
    """Return the steps after which the winner has saved the time of the search, if it does."""
    sure = any(row["to"] == DEFAULT and (row["low"] or 0) > 0 for row in gains)
    ours, theirs = (one.step_s if one else None for one in (winner, default))
    if not sure or ours is None or theirs is None or theirs <= ours:
        return None
    return round(took_s / (theirs - ours))


def winner_matrix(matrix: Matrix, winner: RaceCandidate) -> str:
    """Write the matrix of the winner alone, which bench runs."""
    content: dict[str, Any] = dict(read_yaml(matrix.text, matrix.name))
    for key in ("tune", "exclude", "baseline", "table", "published"):
        content.pop(key, None)
    content["name"] = f"{matrix.name}-winner"[:64]
    alone = matrix.tune.systems.get(winner.long.system) if matrix.tune else None
    content["defaults"] = {
        **(content.get("defaults") or {}),
        **(alone.settings if alone else {}),
        **{key: value for key, value in winner.knobs.items() if value is not None},
    }
    content["repeats"] = REPEATS
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=False, width=100)
    return f"# The fastest setting that `trainbench tune` found.\n{text}"
