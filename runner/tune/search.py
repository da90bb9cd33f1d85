"""Which candidate runs next, and when a search ends: the policy of tune, as a pure function.

A search has three parts, and goes back to an earlier one when a new measurement asks for it.

1. It explores: the candidate with the largest expected gain over the leader (expected improvement,
   Jones et al. 1998, J. Global Optimization 13, 455) times the probability that it fits into memory
   makes a short run, until no candidate is expected to gain SLACK_PERCENT.
2. It checks: a run whose node was lost is repeated, so is one that was much slower than the other
   measurements let expect, and one that contradicts an earlier one; one candidate beyond the line
   of memory is tried.
3. It races: candidates that may be as fast as the leader make a long run, then the best
   FINALISTS take turns (final_race.py) until the fastest is known or they are equal.

Everything is computed from the list of trials: nothing is drawn, there is no clock and no state.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Literal

import numpy as np

from runner.study.study import RunEnding
from runner.tune.beliefs import Belief, Knowledge, alike
from runner.tune.candidates import TuneCandidate
from runner.tune.final_race import SearchEnd, race
from runner.tune.memory_forecast import MemoryForecast, memory_forecast
from runner.tune.step_time import Floats
from runner.tune.trials import (
    Length,
    Trial,
    long_per_short,
    noise,
    standings,
    undisturbed,
)

MOST_CANDIDATES = 3_000  # the belief has a row and a column for each
Why = Literal[
    "default",
    "explore",
    "lost_node",
    "surprise",
    "contradiction",
    "memory",
    "race",
    "compare",
]
_NORMAL = NormalDist()
_EARLY_ERROR = 0.1  # of the time of a run that was ended early
_SURPRISE = 3.0  # standard deviations: slower than this is run again
_MAY_WIN = 0.025  # probability to beat the leader that a candidate needs for a long run
_LARGEST = 700.0  # of the logarithm of a time
SLACK_PERCENT = 0.05  # expected gain of the best remaining one that ends exploring
MARGIN_PERCENT = 1.0  # candidates this near each other are equal
FINALISTS = 3
LONG_RUNS = 6  # candidates at most that make a long run before the final race
END_EARLY_PERCENT = 30.0  # slower than the leader by more: a short run is ended


@dataclass(frozen=True)
class NextRun:
    """What to run next, and why."""

    candidate: str  # id
    length: Length
    why: Why
    predicted_s: float | None = None  # per step and TuneCandidate.work, before this run
    end_above_s: float | None = None  # end the run when its steps take longer; None: never


@dataclass(frozen=True)
class Forecast:
    """What is predicted of one candidate, with all measurements so far."""

    step_s: float
    spread: float  # standard deviation of its logarithm
    gain_percent: float  # expected, over the leader, times `fits`; 0 where it has run or is out
    fits: float  # probability that it fits into memory
    predicted_out: bool  # of memory: it is not run


@dataclass(frozen=True)
class Search:
    """A search over candidates; those within `margin_percent` of each other are equal.

    Raises ValueError where two have one id, or where none or more than MOST_CANDIDATES are legal.
    """

    candidates: Sequence[TuneCandidate]
    knowledge: Knowledge = field(default_factory=Knowledge)
    margin_percent: float = MARGIN_PERCENT
    device_memory_mib: float | None = None

    def __post_init__(self) -> None:
        """Check the candidates."""
        if len({candidate.id for candidate in self.candidates}) < len(self.candidates):
            raise ValueError("two candidates have one id")
        if not self.legal:
            raise ValueError("no candidate is legal")
        if len(self.legal) > MOST_CANDIDATES:
            count = f"{len(self.legal):,} legal candidates"
            raise ValueError(f"{count} are more than {MOST_CANDIDATES:,}: give knobs fewer values")

    @cached_property
    def legal(self) -> list[TuneCandidate]:
        """Candidates that no check refused."""
        return [candidate for candidate in self.candidates if not candidate.refused]

    @cached_property
    def prior(self) -> Belief:
        """What is believed before the first run, of `legal`."""
        return self.knowledge.over(self.legal)

    @cached_property
    def alike(self) -> Floats:
        """How alike each two of `legal` are, 0 to 1."""
        return alike(self.legal)

    def next(self, trials: Sequence[Trial]) -> NextRun | SearchEnd:
        """Return what to do after `trials`: the same trials give the same answer."""
        return _State(self, trials).step()

    def forecasts(self, trials: Sequence[Trial]) -> Mapping[str, Forecast]:
        """Return what is predicted of each legal candidate after `trials`, by id."""
        return _State(self, trials).forecasts()

    def leader(self, trials: Sequence[Trial]) -> str | None:
        """Return the id of the fastest so far."""
        state = _State(self, trials)
        return state.ids[state.order[0]] if state.order else None

    def rehearse(self, trials: Sequence[Trial]) -> list[NextRun]:
        """Return the runs that follow if all take what is predicted now."""
        times = {id_: forecast.step_s for id_, forecast in self.forecasts(trials).items()}
        runs: list[NextRun] = []
        rehearsed = list(trials)
        while isinstance(step := self.next(rehearsed), NextRun):
            runs.append(step)
            early = step.end_above_s is not None and times[step.candidate] > step.end_above_s
            ending: RunEnding = "ended_early" if early else "ok"
            rehearsed.append(Trial(step.candidate, step.length, ending, times[step.candidate]))
        return runs


class _State:
    """A search after some trials. Candidates are known by their place in `legal`."""

    def __init__(self, search: Search, trials: Sequence[Trial]) -> None:
        self.search, self.trials = search, trials
        self.legal = search.legal
        self.ids = [candidate.id for candidate in self.legal]
        self.standings = standings(self.ids, trials)
        self.ratio = long_per_short(self.standings)
        self.prior = search.prior
        self.measured = np.array(
            [at for at, standing in enumerate(self.standings) if standing.measured], int
        )
        self.logs, self.variances = self._measurements()
        self.belief = self._belief()
        racing = [at for at in self.measured.tolist() if not self.standings[at].out]
        self.order = sorted(racing, key=lambda at: self.belief.mean[at])  # the leader first
        self.memory = self._memory()
        self.fits = [self.memory.chance(candidate) for candidate in self.legal]
        self.out = [self.memory.predicted_out(candidate) for candidate in self.legal]

    def _measurements(self) -> tuple[Floats, Floats]:
        """Return the logarithms of the times of `measured`, and the variances of their errors."""
        error, measured = noise(self.standings), [self.standings[at] for at in self.measured]
        counts = [len(undisturbed(standing.long or standing.short)) for standing in measured]
        logs = np.array([math.log(standing.time(self.ratio)) for standing in measured], float)
        return logs, np.array([error**2 / n if n else _EARLY_ERROR**2 for n in counts], float)

    def _belief(self) -> Belief:
        alone = np.array([self.standings[at].unlike(self.ratio) for at in self.measured], bool)
        rows, logs, variances = self.measured, self.logs, self.variances
        belief = self.prior.given(rows[~alone], logs[~alone], variances[~alone])
        return belief.with_fixed(rows[alone], logs[alone], variances[alone])

    def _memory(self) -> MemoryForecast:
        used: dict[str, float] = {}
        for trial in self.trials:
            if trial.memory_mib and trial.ending != "out_of_memory":
                used[trial.candidate] = max(trial.memory_mib, used.get(trial.candidate, 0.0))
        overflowed = {trial.candidate for trial in self.trials if trial.ending == "out_of_memory"}
        return memory_forecast(
            self.legal,
            self.search.device_memory_mib,
            used,
            overflowed,
            {
                id_
                for id_, standing in zip(self.ids, self.standings, strict=True)
                if standing.measured
            },
            self.search.alike if overflowed else None,
        )

    def gain(self, mean: float, spread: float) -> float:
        """Return the expected gain over the leader of a time believed so, in percent."""
        if not self.order:
            return 100.0
        z = (float(self.belief.mean[self.order[0]]) - mean) / spread
        return 100 * spread * (z * _NORMAL.cdf(z) + _NORMAL.pdf(z))

    def forecasts(self) -> dict[str, Forecast]:
        """Return what is predicted of each candidate, by id."""
        return {id_: self._forecast(at) for at, id_ in enumerate(self.ids)}

    def _forecast(self, at: int) -> Forecast:
        mean, spread = float(self.belief.mean[at]), float(self.belief.spread[at])
        closed = self.out[at] or self.standings[at].started
        gain = 0.0 if closed else self.gain(mean, spread) * self.fits[at]
        time = math.exp(min(mean, _LARGEST))
        return Forecast(time, spread, gain, self.fits[at], self.out[at])

    def step(self) -> NextRun | SearchEnd:
        """Return the next run, or the end."""
        checks = self._again() or self._surprising()
        return checks or self._explore() or self._beyond() or self._race()

    def _run(self, at: int, length: Length, why: Why) -> NextRun:
        limit = None
        if self.order and length == "short" and why != "surprise":
            best = self.standings[self.order[0]].time(self.ratio) / self.ratio
            limit = best * (1 + END_EARLY_PERCENT / 100)
        predicted = math.exp(min(float(self.belief.mean[at]), _LARGEST))
        return NextRun(self.ids[at], length, why, predicted, limit)

    def _again(self) -> NextRun | None:
        """Repeat what a lost node or a contradiction leaves open."""
        for at, standing in enumerate(self.standings):
            if standing.lost and not standing.out:
                return self._run(at, standing.lost, "lost_node")
            if not standing.out and (length := standing.unclear(self.ratio)):
                return self._run(at, length, "contradiction")
        return None

    def _surprising(self) -> NextRun | None:
        """Repeat a single short run that was slower than the others let expect, if it may win."""
        if len(self.measured) < 3:
            return None
        means, spreads = self.prior.without_itself(self.measured, self.logs, self.variances)
        for row, at in enumerate(self.measured.tolist()):
            slow = self.logs[row] - means[row] > _SURPRISE * spreads[row]
            if not (slow and self.standings[at].single and not self.standings[at].out):
                continue
            if self.gain(float(means[row]), float(spreads[row])) > SLACK_PERCENT:
                return self._run(at, "short", "surprise")
        return None

    def _explore(self) -> NextRun | None:
        """Run the candidate that promises most; the first is the one predicted fastest."""
        promising = [(self._forecast(at), at) for at in range(len(self.ids))]
        promising = [(promise, at) for promise, at in promising if promise.gain_percent > 0]
        if promising and not self.order:
            at = min(promising, key=lambda pair: pair[0].step_s / max(pair[0].fits, 1e-9))[1]
            return self._run(at, "short", "explore")
        best = max(promising, key=lambda pair: pair[0].gain_percent, default=None)
        if best is None or best[0].gain_percent <= SLACK_PERCENT:
            return None
        return self._run(best[1], "short", "explore")

    def _beyond(self) -> NextRun | None:
        """Try one candidate that is predicted out of memory: the one nearest the line."""
        out = [at for at, beyond in enumerate(self.out) if beyond]
        if not out or any(self.standings[at].started for at in out):
            return None
        nearest = min(out, key=lambda at: self.memory.shares[self.ids[at]])
        return self._run(nearest, "short", "memory")

    def _race(self) -> NextRun | SearchEnd:
        if not self.order:
            return SearchEnd("none_ran")
        entrants = [at for at in self.order[:LONG_RUNS] if self._may_win(at)]
        for at in entrants:
            if not self.standings[at].long:
                return self._run(at, "long", "race")
        finalists = sorted(entrants, key=lambda at: self.standings[at].time(self.ratio))
        result = race(
            {self.ids[at]: undisturbed(self.standings[at].long) for at in finalists[:FINALISTS]},
            {trial.candidate: trial.memory_mib for trial in self.trials if trial.memory_mib},
            self.search.margin_percent,
        )
        if isinstance(result, SearchEnd):
            return result
        return self._run(self.ids.index(result), "long", "race")

    def _may_win(self, at: int) -> bool:
        """Whether a measured candidate may beat the leader; always of the first two, unless it was
        too slow to end.
        """
        if at in self.order[:2] and (self.standings[at].short or self.standings[at].long):
            return True
        lead, cov = self.order[0], self.belief.covariance
        spread = math.sqrt(max(cov[at, at] + cov[lead, lead] - 2 * cov[at, lead], 1e-12))
        ahead = float(self.belief.mean[lead] - self.belief.mean[at])
        return _NORMAL.cdf(ahead / spread) > _MAY_WIN
