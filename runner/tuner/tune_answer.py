"""Runs and predictions to the answer of a search: tune.json. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean

from runner.figures.between_runs import of_values, rate_difference
from runner.matrix.cells import label
from runner.terms.tuned import (
    KnobEffect,
    State,
    Tuned,
    TunedCandidate,
    TunedDifference,
    TunedRun,
)
from runner.tune.search import Forecast, Search
from runner.tune.trials import undisturbed
from runner.tuner.driver import SearchProgress, Unit
from runner.tuner.knob_candidates import Candidates, RaceCandidate
from runner.tuner.readings import TuneReading, trials_of

UNITS: Mapping[str, str] = {
    "step_time": "s per step",
    "tokens_per_s": "s per token of a device",
    "energy": "J per token",
    "memory": "s per step",
}
ENDS: Mapping[str, str] = {
    "decided": "the winner is faster than each other finalist",
    "equal": "the finalists are equal within the margin; the one with least memory wins",
    "undecided": "the finalists cannot be told apart; the fastest by its mean wins",
    "alone": "one candidate was left in the final race",
    "budget": "the budget ended the search; the fastest so far",
    "none_legal": "no combination of the knobs can run",
    "none_ran": "no candidate ended well",
    "going_on": "the search goes on",
}
OUT = ("refused", "out_of_memory", "failed")  # endings with which no candidate wins
MOST_REPLAYED = 300  # candidates of which each run's prediction is computed again


@dataclass
class Answering:
    """Makes the answer; keeps what was predicted of each run."""

    candidates: Candidates
    search: Search
    inventory: str
    fingerprint: str
    unit: Unit
    per_hour: Mapping[str, float]
    notes: Sequence[str] = ()
    _predicted: dict[int, float] = field(default_factory=dict)

    def answer(self, found: SearchProgress) -> Tuned:
        """Return what is known after these runs."""
        why = found.end.why if found.end else "stopped" if found.stopped else "going_on"
        winner = found.end.winner if found.end else None
        forecasts = self.search.forecasts(found.trials)
        runs = self._runs(found.readings)
        rows = self._rows(found, forecasts, winner)
        best = self.candidates.by_id[winner] if winner else None
        return Tuned(
            objective=self.candidates.tuning.objective,
            unit=UNITS[self.candidates.tuning.objective],
            why=why,
            words=found.stopped or ENDS[why],
            inventory=self.inventory,
            fingerprint=self.fingerprint,
            winner=best.name if best else None,
            figure=_figure(best.id, found.readings) if best else None,
            differences=tuple(self._differences(best, found.readings)) if best else (),
            candidates=_with_pareto(rows),
            runs=runs,
            effects=tuple(self._effects(best, found.readings, forecasts)) if best else (),
            refusals=dict(self.candidates.refusals),
            cost=sum(trial.cost for trial in found.trials),
            cost_unit=self.unit,
            took_s=sum(one.wall_s for one in found.readings),
            pays_after=self._pays_after(best, found.readings) if best else None,
            notes=tuple(self.notes),
            measured=tuple(self._measured(found.readings)),
        )

    def _runs(self, readings: Sequence[TuneReading]) -> tuple[TunedRun, ...]:
        made, best = [], None
        for number, one in enumerate(readings, 1):
            if one.counts and one.figure is not None:
                best = one.figure if best is None else min(best, one.figure)
            made.append(
                TunedRun(
                    number=number,
                    candidate=self.candidates.by_id[one.candidate].name,
                    length=one.length,
                    ending=one.ending,
                    began=one.began,
                    wall_s=one.wall_s,
                    reason=one.reason,
                    figure=one.figure,
                    predicted=self._prediction(number, readings),
                    memory_mib=one.memory_mib,
                    best=best,
                )
            )
        return tuple(made)

    def _prediction(self, number: int, readings: Sequence[TuneReading]) -> float | None:
        """Return what was predicted of a run by those before it."""
        if number not in self._predicted:
            if len(self.candidates.legal) > MOST_REPLAYED and number < len(readings):
                return None
            before = trials_of(readings[: number - 1], self.candidates, {})
            forecast = self.search.forecasts(before)[readings[number - 1].candidate]
            self._predicted[number] = forecast.step_s
        return self._predicted[number] if self._scaled(number) else None

    def _scaled(self, number: int) -> bool:
        """Whether the scale was known by then: of what is no time a first run has to tell it."""
        knowledge = self.search.knowledge
        known = all(one.known.layout is not None for one in self.candidates.legal)
        return number > 1 or (knowledge.of_time and known)

    def _rows(
        self, found: SearchProgress, forecasts: Mapping[str, Forecast], winner: str | None
    ) -> list[TunedCandidate]:
        rows = []
        for one in self.candidates.all:
            own = [each for each in found.readings if each.candidate == one.id]
            forecast = forecasts.get(one.id)
            state, reason = _state(one, own, forecast, winner)
            memory = [each.memory_mib for each in own if each.memory_mib]
            known = forecast is not None and (bool(found.readings) or self._scaled(1))
            rows.append(
                TunedCandidate(
                    name=one.name,
                    knobs=dict(one.knobs),
                    state=state,
                    reason=reason,
                    runs=len(own),
                    figure=_figure(one.id, found.readings),
                    predicted=forecast.step_s if forecast and known else None,
                    memory_mib=max(memory, default=None),
                    memory_estimate_mib=one.known.memory_mib,
                )
            )
        return rows

    def _differences(
        self, winner: RaceCandidate, readings: Sequence[TuneReading]
    ) -> list[TunedDifference]:
        """Compare the winner with the default, the rule of thumb and the second."""
        second = _second(winner.id, readings)
        named = [
            ("the default", self.candidates.default),
            ("the rule of thumb", self.candidates.rule_of_thumb),
            ("the second", self.candidates.by_id[second] if second else None),
        ]
        each = [(to, one) for to, one in named if one is not None]
        return [_difference(to, winner, one, readings, len(each)) for to, one in each]

    def _effects(
        self,
        winner: RaceCandidate,
        readings: Sequence[TuneReading],
        forecasts: Mapping[str, Forecast],
    ) -> list[KnobEffect]:
        """Compare the winner with those that differ from it in one knob."""
        best, found = forecasts[winner.id].step_s, []
        out = {one.candidate for one in readings if one.ending in OUT}
        for one in self.candidates.legal:
            if one.id in out:  # it may not win: what it would cost is no choice
                continue
            other = [key for key in winner.knobs if one.knobs.get(key) != winner.knobs[key]]
            if len(other) != 1 or set(one.knobs) != set(winner.knobs):
                continue
            percent = 100 * (forecasts[one.id].step_s / best - 1)
            measured = _figure(one.id, readings) is not None
            found.append(KnobEffect(other[0], label(one.knobs[other[0]]), percent, measured))
        order = list(winner.knobs)
        return sorted(found, key=lambda one: (order.index(one.knob), one.percent))

    def _pays_after(self, winner: RaceCandidate, readings: Sequence[TuneReading]) -> int | None:
        """Return the steps after which the winner has saved the time of the search."""
        default = self.candidates.default
        ours = _step_s(winner.id, readings)
        theirs = _step_s(default.id, readings) if default else None
        if ours is None or theirs is None or theirs <= ours:
            return None
        return round(sum(one.wall_s for one in readings) / (theirs - ours))

    def _measured(self, readings: Sequence[TuneReading]) -> list[dict[str, object]]:
        """Return layouts and step times, for later searches."""
        rows = []
        for one in self.candidates.legal:
            step_s = _step_s(one.id, readings)
            if one.known.layout is not None and step_s is not None:
                layout = asdict(one.known.layout)
                rows.append({"system": one.long.system, **layout, "step_s": step_s})
        return rows


def _of(
    candidate: str, readings: Sequence[TuneReading], *, long_alone: bool = False
) -> list[TuneReading]:
    """Return a candidate's long runs that ended ok; without any its short ones."""
    own = [one for one in readings if one.candidate == candidate and one.figure]
    good = [one for one in own if one.ending in ("ok", "refused")]
    long = [one for one in good if one.length == "long"]
    if long_alone:
        return long
    return long or good or [one for one in own if one.ending == "ended_early"]


def _figure(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    own = [one.figure for one in _of(candidate, readings) if one.figure]
    return fmean(undisturbed(own)) if own else None


def _step_s(candidate: str, readings: Sequence[TuneReading]) -> float | None:
    own = [one.step_s for one in _of(candidate, readings) if one.step_s]
    return fmean(undisturbed(own)) if own else None


def _second(winner: str, readings: Sequence[TuneReading]) -> str | None:
    """Return the fastest other candidate that may win, of those with long runs if there are any."""
    out = {one.candidate for one in readings if one.ending in OUT}
    names = {one.candidate for one in readings if one.counts} - {winner} - out
    long = {name for name in names if _of(name, readings, long_alone=True)}
    return min(long or names, key=lambda name: _figure(name, readings) or 0.0, default=None)


def _difference(
    to: str, ours: RaceCandidate, theirs: RaceCandidate, readings: Sequence[TuneReading], count: int
) -> TunedDifference:
    if ours.id == theirs.id:
        return TunedDifference(to, theirs.name, missing="it is the winner")
    one, other = (
        undisturbed([x.figure for x in _of(name, readings) if x.figure])
        for name in (ours.id, theirs.id)
    )
    if not one or not other:
        why = next((x.reason for x in readings if x.candidate == theirs.id and x.reason), "")
        return TunedDifference(to, theirs.name, missing=why or "it did not run")
    found = rate_difference(of_values(one), of_values(other), comparisons=count)
    low, high = found.interval or (None, None)
    return TunedDifference(to, theirs.name, found.percent, low, high, found.missing)


def _state(
    one: RaceCandidate, own: Sequence[TuneReading], forecast: Forecast | None, winner: str | None
) -> tuple[State, str]:
    if one.known.refused:
        return "illegal", one.known.refused
    if one.id == winner:
        return "winner", ""
    for ending in OUT:
        for each in own:
            if each.ending == ending:
                return ("refused" if ending == "refused" else "failed"), each.reason
    if any(each.counts and each.length == "long" for each in own):
        return "finalist", ""
    if any(each.counts for each in own):
        return "tried", ""
    if early := [each for each in own if each.ending == "ended_early"]:
        return "ended_early", early[-1].reason
    if own:
        return "failed", own[-1].reason
    if forecast is not None and forecast.predicted_out:
        return "predicted_out", "its memory is predicted to exceed a device's"
    return "not_tried", ""


def _with_pareto(rows: Sequence[TunedCandidate]) -> tuple[TunedCandidate, ...]:
    """Mark the candidates that no other one beats in both speed and memory."""
    known = [(one.figure, one.memory_mib) for one in rows if _may_win(one)]
    made = []
    for one in rows:
        beaten = not _may_win(one) or any(
            figure <= (one.figure or 0)
            and memory <= (one.memory_mib or 0)
            and (figure, memory) != (one.figure, one.memory_mib)
            for figure, memory in known
            if figure is not None and memory is not None
        )
        made.append(replace(one, pareto=not beaten))
    return tuple(made)


def _may_win(one: TunedCandidate) -> bool:
    good = one.state in ("winner", "finalist", "tried")
    return good and one.figure is not None and one.memory_mib is not None
