"""One search: its candidates, what is known beforehand, its campaign, and its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from node.time_words import lasts
from runner.base.errors import UserError
from runner.base.escapes import TerminalLine
from runner.base.files import write_text
from runner.base.text import counted
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.tune_file import save_tuned
from runner.launch.bench import Tally, bench
from runner.launch.engines import engine_of
from runner.launch.view import View
from runner.plan.make import campaign_name
from runner.systems.common import estimates
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuned import Tuned
from runner.terms.tuning import OBJECTIVES
from runner.tune.beliefs import Knowledge
from runner.tune.candidates import MachineRates
from runner.tune.driver import COMPARED_RUNS, MOST_REPEATS, SearchProgress, TuneSource, Unit, costs
from runner.tune.knob_candidates import ITERATIONS, Candidates, RaceCandidate, candidates_of
from runner.tune.machine_constants import (
    MachineConstants,
    earlier_of,
    kept_machine,
    measure,
    with_share,
)
from runner.tune.search import TuneRules
from runner.tune.tune_answer import Answering
from runner.tune.winner import commands, winner_matrix


@dataclass(frozen=True)
class TuneOptions:
    """What the command line says of a search."""

    budget: float | None = None
    unit: Unit = "node-hours"
    measure: bool = True


@dataclass
class TuneSession:
    """A search of a matrix on a cluster; `inventory` is its path."""

    matrix: Matrix
    cluster: Cluster
    inventory: Path
    runs: Path
    options: TuneOptions
    say: Callable[[str], None]
    notes: tuple[str, ...] = ()

    @cached_property
    def checked(self) -> Candidates:
        """All combinations, before the machine is measured."""
        return candidates_of(self.matrix, self.cluster)

    @cached_property
    def held(self) -> Matrix:
        """The matrix as bench runs it: its cells are those of the legal candidates."""
        return replace(self.matrix, cells=self.checked.cells, repeats=MOST_REPEATS)

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign's folder."""
        return Campaign(self.runs / campaign_name(self.matrix, self.cluster))

    @cached_property
    def machine(self) -> MachineConstants:
        """What this machine does per second, as far as it was measured before."""
        return kept_machine(self.runs, self.cluster) or MachineConstants(self.cluster.digest)

    def measure(self) -> None:
        """Measure the machine where that was not done yet, and is of use."""
        layouts = any(candidate.known.layout for candidate in self.checked.legal)
        if self.options.measure and layouts and not self.machine.at:
            constants, why = measure(self.inventory, self.runs, self.cluster, self.say)
            self.__dict__["machine"] = constants
            self.notes += (why,) if why else ()

    @cached_property
    def candidates(self) -> Candidates:
        """All combinations, with the matrix rates of their arithmetics."""
        base = self._arithmetic(self.checked.legal[0].long) if self.checked.legal else None

        def scaled(candidate: RaceCandidate) -> RaceCandidate:
            if candidate.known.layout is None:
                return candidate
            share = self.machine.share(self._arithmetic(candidate.long), base, self.cluster.device)
            return replace(
                candidate,
                known=replace(candidate.known, layout=with_share(candidate.known.layout, share)),
            )

        return Candidates(tuple(map(scaled, self.checked.all)), self.checked.tuning)

    def _arithmetic(self, cell: Cell) -> str | None:
        return load_system(cell.system).arithmetic(cell.parameters)

    @cached_property
    def knowledge(self) -> Knowledge:
        """The machine's rates, and what earlier searches measured."""
        legal = self.candidates.legal
        systems = {candidate.long.system for candidate in legal}
        arithmetic = self._arithmetic(legal[0].long) if legal else None
        rates = self.machine.rates(arithmetic, self.cluster.device) if legal else MachineRates()
        timed = OBJECTIVES[self.candidates.tuning.objective].of_time
        earlier = earlier_of(self.runs, self.campaign.name, self.cluster.digest, systems)
        return Knowledge(rates, tuple(earlier) if timed else (), of_time=timed)

    @cached_property
    def rules(self) -> TuneRules:
        """The policy's rules, as this search has them."""
        tuning = self.candidates.tuning
        rules = TuneRules(budget=self.options.budget, device_memory_mib=self._device_mib)
        if tuning.objective != "memory":
            return rules
        return replace(rules, margin_percent=tuning.memory_loss_percent)

    @property
    def _device_mib(self) -> float | None:
        return self.cluster.device_memory_mib

    @cached_property
    def source(self) -> TuneSource:
        """What says which runs come next."""
        return TuneSource(
            self.candidates,
            self.knowledge,
            self.rules,
            self.matrix.time_limit_s,
            self._device_mib,
            costs(self.candidates, self.options.unit),
            self.save,
        )

    @cached_property
    def answering(self) -> Answering:
        """What makes the answer."""
        return Answering(
            self.candidates,
            self.source.search,
            self.cluster.name,
            self.cluster.digest,
            self.options.unit,
            self.source.per_hour,
        )

    def save(self, campaign: Campaign, progress: SearchProgress) -> Tuned:
        """Write how far the search is; at its end the winner, too."""
        self.answering.notes = self.notes
        tuned = self.answering.answer(progress)
        winner = progress.end.winner if progress.end else None
        if tuned.winner is None:
            (campaign.path / names.WINNER).unlink(missing_ok=True)
        elif winner is not None:
            winning = self.candidates.by_id[winner]
            tuned = replace(tuned, commands=commands(self.matrix, winning, self.cluster))
            write_text(campaign.path / names.WINNER, winner_matrix(self.matrix, winning))
        save_tuned(campaign.path, tuned)
        return tuned

    def look(self) -> SearchProgress:
        """Read what ran before; asks no node."""
        if not self.campaign.begun:
            return self.source.look(self.campaign, ())
        matrix = self.campaign.grown(self.held, self.cluster).matrix
        return self.source.look(self.campaign, matrix.cells)

    def refuse_objective(self) -> None:
        """Raise UserError where no run can be compared."""
        if self.checked.tuning.objective == "energy" and self.cluster.device == "cpu":
            raise UserError(
                f"objective: energy needs devices whose power can be read, and {self.cluster.name}"
                " has CPUs; ask for objective: step_time"
            )

    def refuse_unusable(self) -> None:
        """Raise UserError where no combination can run, or no run can be compared."""
        self.refuse_objective()
        if self.checked.legal:
            return
        reasons = [f"{reason} ({count})" for reason, count in self.checked.refusals[:5]]
        raise UserError(
            f"none of the {len(self.checked.all)} combinations of the knobs can run:"
            f" {'; '.join(reasons)}"
        )

    def run(self, view: View, limit_s: float | None = None) -> tuple[Tally, Tuned]:
        """Run the search until it ends, or is stopped; the answer so far."""
        self.refuse_unusable()
        self.measure()
        tally = bench(
            self.held,
            self.cluster,
            self.runs,
            engine=engine_of(self.cluster, self.runs),
            limit_s=limit_s,
            view=view,
            source=self.source,
        )
        return tally, self.finished()

    def finished(self) -> Tuned:
        """Return the answer after the last run, and write it."""
        progress = self.look()
        if self.source.found and self.source.found.stopped:
            progress = replace(progress, step=None, stopped=self.source.found.stopped)
        if not self.campaign.begun:
            return self.answering.answer(progress)
        return self.save(self.campaign, progress)

    def plan(self, progress: SearchProgress) -> dict[str, Any]:
        """Return what `tune --plan --format json` prints."""
        legal, every = self.candidates.legal, self.candidates.all
        steps = self.source.search.rehearse(progress.trials) if legal else []
        short = sum(step.length == "short" for step in steps)
        long = len(steps) - short
        ran = {reading.candidate for reading in progress.readings}
        references = [self.candidates.default, self.candidates.rule_of_thumb]
        if legal and steps:
            if self.candidates.default and self.candidates.default.id not in ran:
                short += self.candidates.default.id not in {step.candidate for step in steps}
            last_candidate = steps[-1].candidate
            compared_ids = {candidate.id for candidate in references if candidate is not None} - {
                last_candidate
            }
            long += COMPARED_RUNS * len(compared_ids)
        short_s = self.run_s(progress, long=False) if legal else None
        long_s = self.run_s(progress, long=True) if legal else None
        predictable = short_s is not None and long_s is not None
        return {
            "schema": 1,
            "campaign": self.campaign.name,
            "combinations": len(every),
            "legal": len(legal),
            "refusals": dict(self.candidates.refusals),
            "ran": len(progress.readings),
            "short_runs": short,
            "long_runs": long,
            "expected_s": short * (short_s or 0) + long * (long_s or 0) if predictable else None,
            "machine_measured": bool(self.machine.at),
            "earlier_measurements": len(self.knowledge.earlier),
        }

    def words(self, progress: SearchProgress) -> str:
        """Say the same in a line."""
        return self.plan_text(self.plan(progress)).splitlines()[0]

    def plan_text(self, plan: Mapping[str, Any]) -> str:
        """Say the same for a person."""
        expected = plan["expected_s"]
        time = (
            "for a time that nobody knows yet" if expected is None else f"about {lasts(expected)}"
        )
        ran = f"{counted(plan['ran'], 'run')} made; " if plan["ran"] else ""
        lines = [
            f"campaign {plan['campaign']}: {plan['legal']} of {plan['combinations']} combinations"
            f" can run; {ran}probably {plan['short_runs']} short and {plan['long_runs']} long runs"
            f"{' more' if ran else ''}, {time}"
        ]
        if plan["refusals"]:
            lines.append("cannot run:")
            lines += [f"  {count}: {reason}" for reason, count in plan["refusals"].items()]
        if not plan["machine_measured"]:
            lines.append(
                "this machine is not measured yet, so that the number of runs is a guess; the first"
                " `tune` measures it, in a minute or two"
            )
        return "\n".join(map(TerminalLine, lines))

    def run_s(self, progress: SearchProgress, *, long: bool) -> float | None:
        """Return what such a run takes, by those that ran, else by prediction; None: unknown."""
        length = "long" if long else "short"
        took = [reading.wall_s for reading in progress.readings if reading.length == length]
        if took:
            return median(took)
        default = self.candidates.default or self.candidates.legal[0]
        cell = default.long if long else default.short
        iterations = cell.parameters.get(ITERATIONS)
        if iterations is None:
            return None
        if self.knowledge.of_time and default.known.layout and self.knowledge.rates.measured:
            step_s = (
                self.source.search.forecasts(progress.trials)[default.id].step_s
                * default.known.work
            )
            return float(estimates.START_S + iterations * step_s)
        estimate = load_system(cell.system).estimate
        return estimate(cell, self.cluster).time_s if estimate else None


def first_cells(session: TuneSession, progress: SearchProgress) -> Sequence[Cell]:
    """Return the cells that would run if everything took what is predicted, each once."""
    steps = session.source.search.rehearse(progress.trials)
    by_id = session.candidates.by_id
    default = session.candidates.default
    cells = [default.short] if default else []
    cells += [by_id[step.candidate].cell(step.length) for step in steps]
    return list({cell.id: cell for cell in cells}.values())
