"""A matrix with `tune` as a study: what its knobs allow, and what is known of the machine."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from runner.base.errors import UserError
from runner.plan.make import campaign_name
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster
from runner.terms.tuning import OBJECTIVES
from runner.tune.beliefs import Knowledge
from runner.tune.candidates import MachineRates
from runner.tune.knob_candidates import Candidates, RaceCandidate, candidates_of
from runner.tune.machine_constants import MachineConstants, earlier_of, kept_machine, measure
from runner.tune.search import MARGIN_PERCENT, Search
from runner.tune.tune_study import TuneStudy


def tune_study(
    matrix: Matrix,
    cluster: Cluster,
    runs: Path,
    inventory: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> TuneStudy:
    """Return the search that a matrix asks for.

    With an `inventory` the machine is measured where that was not done yet, and is of use. Raises
    UserError where no combination can run, or no run can be compared.
    """
    checked = candidates_of(matrix, cluster)
    _refuse(checked, cluster)
    machine, notes = kept_machine(runs, cluster) or MachineConstants(cluster.digest), ""
    if inventory and not machine.at and any(one.known.layout for one in checked.legal):
        machine, notes = measure(inventory, runs, cluster, say)
    candidates = _scaled(checked, machine, cluster)
    tuning = candidates.tuning
    search = Search(
        [candidate.known for candidate in candidates.all],
        _knowledge(candidates, machine, cluster, runs, campaign_name(matrix, cluster)),
        tuning.memory_loss_percent if tuning.objective == "memory" else MARGIN_PERCENT,
        cluster.device_memory_mib,
    )
    return TuneStudy(matrix, cluster, candidates, search, notes=(notes,) if notes else ())


def _refuse(checked: Candidates, cluster: Cluster) -> None:
    if checked.tuning.objective == "energy" and cluster.device == "cpu":
        raise UserError(
            f"objective: energy needs devices whose power can be read, and {cluster.name}"
            " has CPUs; ask for objective: step_time"
        )
    if not checked.legal:
        reasons = [f"{reason} ({count})" for reason, count in checked.refusals[:5]]
        raise UserError(
            f"none of the {len(checked.all)} combinations of the knobs can run:"
            f" {'; '.join(reasons)}"
        )


def _scaled(checked: Candidates, machine: MachineConstants, cluster: Cluster) -> Candidates:
    """Return the candidates with the matrix rates of their arithmetics."""

    def rate(candidate: RaceCandidate) -> float:
        return machine.matmul_of(_arithmetic(candidate.long), cluster.device)

    def scaled(candidate: RaceCandidate) -> RaceCandidate:
        layout = candidate.known.layout
        if layout is None:
            return candidate
        layout = replace(layout, matmul_share=rate(candidate) / rate(checked.legal[0]))
        return replace(candidate, known=replace(candidate.known, layout=layout))

    return Candidates(tuple(map(scaled, checked.all)), checked.tuning)


def _arithmetic(cell: Cell) -> str | None:
    return load_system(cell.system).arithmetic(cell.parameters)


def _knowledge(
    candidates: Candidates, machine: MachineConstants, cluster: Cluster, runs: Path, campaign: str
) -> Knowledge:
    """Return the machine's rates, and what earlier searches measured."""
    legal = candidates.legal
    rates: MachineRates = machine.rates(_arithmetic(legal[0].long), cluster.device)
    timed = OBJECTIVES[candidates.tuning.objective].of_time
    systems = {candidate.long.system for candidate in legal}
    earlier = earlier_of(runs, campaign, cluster.digest, systems)
    return Knowledge(rates, tuple(earlier) if timed else (), of_time=timed)
