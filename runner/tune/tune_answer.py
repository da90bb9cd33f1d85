"""Runs and predictions to the answer of a search: tune.json. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from runner.figures.between_runs import MOST_REPEATS, of_values, rate_difference, repeats_to_see
from runner.terms.tuned import State, Tuned, TunedCandidate, TunedDifference, TunedRun
from runner.terms.tuning import OBJECTIVES
from runner.tune.driver import SearchProgress, Unit
from runner.tune.knob_candidates import Candidates, RaceCandidate
from runner.tune.readings import TuneReading
from runner.tune.search import Forecast, Search
from runner.tune.trials import undisturbed

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


@dataclass
class Answering:
    """Makes the answer."""

    candidates: Candidates
    search: Search
    inventory: str
    fingerprint: str
    unit: Unit
    per_hour: Mapping[str, float]
    notes: Sequence[str] = ()

    def answer(self, progress: SearchProgress) -> Tuned:
        """Return what is known after these runs."""
        why = progress.end.why if progress.end else "stopped" if progress.stopped else "going_on"
        winner = progress.end.winner if progress.end else None
        forecasts = self.search.forecasts(progress.trials)
        runs = self._runs(progress.readings)
        best = self.candidates.by_id[winner] if winner else None
        differences = self._differences(best, progress.readings) if best else []
        gain = next((one for one in differences if one.to == "the default"), None)
        words = progress.stopped or ENDS[why] + (
            COMPARING if progress.end and progress.step else ""
        )
        if best and (unsure := self._unsure(best, gain, progress.readings)):
            best, winner, words = None, None, unsure
        return Tuned(
            objective=self.candidates.tuning.objective,
            unit=OBJECTIVES[self.candidates.tuning.objective].unit,
            why=why,
            words=words,
            inventory=self.inventory,
            fingerprint=self.fingerprint,
            winner=best.name if best else None,
            figure=_figure(best.id, progress.readings) if best else None,
            differences=tuple(differences),
            candidates=tuple(self._rows(progress, forecasts, winner)),
            runs=runs,
            refusals=dict(self.candidates.refusals),
            cost=sum(trial.cost for trial in progress.trials),
            cost_unit=self.unit,
            took_s=sum(reading.wall_s for reading in progress.readings),
            pays_after=self._pays_after(best, gain, progress.readings) if best else None,
            notes=tuple(self.notes),
            measured=tuple(self._measured(progress.readings)),
        )

    def _runs(self, readings: Sequence[TuneReading]) -> tuple[TunedRun, ...]:
        rows, best = [], None
        for number, reading in enumerate(readings, 1):
            if reading.counts and reading.figure is not None:
                best = reading.figure if best is None else min(best, reading.figure)
            rows.append(
                TunedRun(
                    number=number,
                    candidate=self.candidates.by_id[reading.candidate].name,
                    length=reading.length,
                    ending=reading.ending,
                    began=reading.began,
                    wall_s=reading.wall_s,
                    reason=reading.reason,
                    figure=reading.figure,
                    memory_mib=reading.memory_mib,
                    best=best,
                )
            )
        return tuple(rows)

    def _rows(
        self, progress: SearchProgress, forecasts: Mapping[str, Forecast], winner: str | None
    ) -> list[TunedCandidate]:
        knowledge, rows = self.search.knowledge, []
        all_known = all(candidate.known.layout is not None for candidate in self.candidates.legal)
        # The scale of what is not a time takes a first run.
        predictable = bool(progress.readings) or (knowledge.of_time and all_known)
        for candidate in self.candidates.all:
            own_readings = [
                reading for reading in progress.readings if reading.candidate == candidate.id
            ]
            forecast = forecasts.get(candidate.id)
            state, reason = _state(candidate, own_readings, forecast, winner)
            memory = [reading.memory_mib for reading in own_readings if reading.memory_mib]
            rows.append(
                TunedCandidate(
                    name=candidate.name,
                    knobs=dict(candidate.knobs),
                    state=state,
                    reason=reason,
                    runs=len(own_readings),
                    figure=_figure(candidate.id, progress.readings),
                    predicted=forecast.step_s if forecast and predictable else None,
                    memory_mib=max(memory, default=None),
                    memory_estimate_mib=candidate.known.memory_mib,
                )
            )
        return rows

    def _differences(
        self, winner: RaceCandidate, readings: Sequence[TuneReading]
    ) -> list[TunedDifference]:
        """Compare the winner with the default, the rule of thumb and the second."""
        second = _second(winner.id, readings)
        rivals = [
            ("the default", self.candidates.default),
            ("the rule of thumb", self.candidates.rule_of_thumb),
            ("the second", self.candidates.by_id[second] if second else None),
        ]
        present = [(to, rival) for to, rival in rivals if rival is not None]
        return [_difference(to, winner, rival, readings, len(present)) for to, rival in present]

    def _unsure(
        self, best: RaceCandidate, gain: TunedDifference | None, readings: Sequence[TuneReading]
    ) -> str:
        """Say how many repeats it takes where the fastest by its mean may be no faster than the
        default; empty where it is known to be, or to be equal within the margin.
        """
        default = self.candidates.default
        if not default or not gain or None in (gain.percent, gain.low, gain.high):
            return ""
        percent, low, high = gain.percent or 0.0, gain.low or 0.0, gain.high or 0.0
        if not low <= 0 <= high or max(-low, high) <= self.search.rules.margin_percent:
            return ""
        ours, theirs = (of_values(_figures(one.id, readings)) for one in (best, default))
        count = repeats_to_see(ours, theirs, abs(percent))
        return (
            f"{best.name} is fastest by its mean, and perhaps no faster than the default:"
            f" {percent:+.1f} % ({low:.1f} to {high:.1f}); it takes"
            f" {f'about {count}' if count else f'more than {MOST_REPEATS}'} long runs of each to"
            " tell"
        )

    def _pays_after(
        self, winner: RaceCandidate, gain: TunedDifference | None, readings: Sequence[TuneReading]
    ) -> int | None:
        """Return the steps after which the winner has saved the time of the search, if it does."""
        if not gain or not gain.low or gain.low < 0:
            return None
        default = self.candidates.default
        ours = _step_s(winner.id, readings)
        theirs = _step_s(default.id, readings) if default else None
        if ours is None or theirs is None or theirs <= ours:
            return None
        return round(sum(reading.wall_s for reading in readings) / (theirs - ours))

    def _measured(self, readings: Sequence[TuneReading]) -> list[dict[str, object]]:
        """Return layouts and step times, for later searches."""
        rows = []
        for candidate in self.candidates.legal:
            step_s = _step_s(candidate.id, readings)
            if candidate.known.layout is not None and step_s is not None:
                layout = asdict(candidate.known.layout)
                rows.append({"system": candidate.long.system, **layout, "step_s": step_s})
        return rows


def _of(
    candidate: str, readings: Sequence[TuneReading], *, long_alone: bool = False
) -> list[TuneReading]:
    """Return a candidate's long runs that ended ok; without any its short ones."""
    own_readings = [
        reading for reading in readings if reading.candidate == candidate and reading.figure
    ]
    good = [reading for reading in own_readings if reading.ending in ("ok", "refused")]
    long = [reading for reading in good if reading.length == "long"]
    if long_alone:
        return long
    return long or good or [reading for reading in own_readings if reading.ending == "ended_early"]


def _figures(candidate: str, readings: Sequence[TuneReading]) -> list[float]:
    return undisturbed([run.figure for run in _of(candidate, readings) if run.figure])


def _figure(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    figures = _figures(candidate, readings)
    return fmean(figures) if figures else None


def _step_s(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    times = [reading.step_s for reading in _of(candidate, readings) if reading.step_s]
    return fmean(undisturbed(times)) if times else None


def _second(winner: str, readings: Sequence[TuneReading]) -> str | None:
    """Return the fastest other candidate that may win, of those with long runs if there are any."""
    out = {reading.candidate for reading in readings if reading.ending in OUT}
    names = {reading.candidate for reading in readings if reading.counts} - {winner} - out
    long = {name for name in names if _of(name, readings, long_alone=True)}
    return min(long or names, key=lambda name: _figure(name, readings) or 0.0, default=None)


def _difference(
    to: str, ours: RaceCandidate, theirs: RaceCandidate, readings: Sequence[TuneReading], count: int
) -> TunedDifference:
    if ours.id == theirs.id:
        return TunedDifference(to, theirs.name, missing="it is the winner")
    our_figures, their_figures = (_figures(name, readings) for name in (ours.id, theirs.id))
    if not our_figures or not their_figures:
        why = next((x.reason for x in readings if x.candidate == theirs.id and x.reason), "")
        return TunedDifference(to, theirs.name, missing=why or "it did not run")
    estimate = rate_difference(of_values(our_figures), of_values(their_figures), comparisons=count)
    low, high = estimate.interval or (None, None)
    return TunedDifference(to, theirs.name, estimate.percent, low, high, estimate.missing)


def _state(
    candidate: RaceCandidate,
    readings: Sequence[TuneReading],
    forecast: Forecast | None,
    winner: str | None,
) -> tuple[State, str]:
    if candidate.known.refused:
        return "illegal", candidate.known.refused
    if candidate.id == winner:
        return "winner", ""
    for ending in OUT:
        for reading in readings:
            if reading.ending == ending:
                return ("refused" if ending == "refused" else "failed"), reading.reason
    if any(reading.counts and reading.length == "long" for reading in readings):
        return "finalist", ""
    if any(reading.counts for reading in readings):
        return "tried", ""
    if early := [reading for reading in readings if reading.ending == "ended_early"]:
        return "ended_early", early[-1].reason
    if readings:
        return "failed", readings[-1].reason
    if forecast is not None and forecast.predicted_out:
        return "predicted_out", "its memory is predicted to exceed a device's"
    return "not_tried", ""
