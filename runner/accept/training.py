"""The last stage: each node trains alone, then groups of 2, 4, ... and all; then all for long.

All groups of one size train at once, in one run of the engine: each group's part is what `bench`
would start for it, on its nodes. So each size is a round, and log2(nodes) rounds are enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from runner.accept import learned
from runner.accept.acceptance import NodeFault, StageReport, merged, timed
from runner.accept.learned import SOAK, STAGE, GroupTraining
from runner.accept.scope import WORKLOADS, AcceptOptions
from runner.accept.session import EarlyEnd, Session
from runner.doctor import probing
from runner.folder import names
from runner.launch.screen import live
from runner.matrix.file import load_matrix, parse_matrix
from runner.plan import checks
from runner.plan.make import make_run
from runner.results.judge import measure_run
from runner.systems.common.launchers import PYTHON
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster, Node
from runner.terms.orders import NodeRun, Orders

WARMUP = 5  # iterations that no figure counts
GLOBAL = "global_batch_size"
STALL_S = 90.0
MOST_TRIES = 3  # of groups of which one seems slow
MOST_SOAK_ITERS = 1_000_000


def matrix_of(options: AcceptOptions, cluster: Cluster) -> Matrix:
    """Return the matrix whose first cell trains: a person's own, or a small GPT."""
    if options.matrix:
        return load_matrix(Path(options.matrix), cluster.devices_of)
    devices = min(node.devices for node in cluster.nodes)
    workload = WORKLOADS[cluster.device]
    defaults = {
        "system": "torch_gpt",
        **workload,
        GLOBAL: workload["micro_batch_size"] * devices,
        "devices_per_node": devices,
        "train_iters": options.train_iters,
    }
    if devices == 1:
        defaults["launcher"] = PYTHON  # torchrun's own process would only import torch once more
    text = yaml.safe_dump({"name": "accept", "defaults": defaults, "time_limit_s": 900})
    return parse_matrix(text, "accept's matrix", "accept", cluster.devices_of)


def sized(cell: Cell, nodes: int, iterations: int | None = None) -> Cell:
    """Return the cell on so many nodes, with the same work for each device."""
    values: dict[str, Any] = dict(cell.parameters)
    if GLOBAL in values:
        values[GLOBAL] = values[GLOBAL] * nodes // cell.nodes
    if iterations is not None:
        values["train_iters"] = iterations
    return replace(cell, name=f"nodes={nodes}", nodes=nodes, parameters=values, id="")


def chunks(nodes: Sequence[Node], size: int) -> list[tuple[Node, ...]]:
    """Return disjoint groups of neighbours; those that are left over join none."""
    count = len(nodes) // size
    return [tuple(nodes[at * size : (at + 1) * size]) for at in range(count)]


def combined(
    session: Session,
    matrix: Matrix,
    cell: Cell,
    groups: Sequence[Sequence[Node]],
    *,
    number: int,
    port_try: int,
    folder: PurePosixPath,
) -> Orders:
    """Order one run of several groups: each node's part is that of its own group."""
    parts: list[NodeRun] = []
    cluster = session.cluster
    for group in groups:
        run = make_run(
            matrix,
            cell,
            replace(cluster, nodes=tuple(group)),
            campaign=f"accept-{cluster.name}",
            attempt=number,
            port_try=port_try,
        )
        for part in run.nodes:
            rank, where = len(parts), part.dir
            if cluster.engine.in_jobs:
                where = str(folder / names.node(rank, part.host))
            argv = tuple(word.replace(part.dir, where) for word in part.argv)
            parts.append(replace(part, node_rank=rank, dir=where, argv=argv))
    return Orders(run.id, run.limits, tuple(parts), cluster.secrets, cell.placement)


def training(session: Session) -> StageReport:
    """Train on each node alone, on groups of each size, and for long; compare all of it."""
    matrix = matrix_of(session.options, session.cluster)
    matrix = replace(matrix, stall_limit_s=min(matrix.stall_limit_s, STALL_S))
    cell, soak_s = matrix.cells[0], session.options.soak_s
    checks.check_cells([sized(cell, 1)], session.cluster, matrix.warmup_iters)
    for size in session.options.group_sizes(len(session.nodes)):
        keep(session, f"{size}", partial(train_round, session, matrix, cell, size))
    if soak_s:
        keep(session, SOAK, partial(soak, session, matrix, cell, soak_s))
    rounds = session.state.rounds
    found = merged(STAGE, rounds)
    return found.adding(
        notes=learned.scaling(found.tests),
        untested=() if soak_s else ("training for long (--soak)",),
        unanswered=() if rounds else ("stage training: no group of nodes is left to train",),
    )


def keep(session: Session, name: str, do: Callable[[], StageReport]) -> None:
    """Do a round that is not done yet, and keep it: an acceptance that is ended goes on there."""
    if not session.nodes or any(report.stage == name for report in session.state.rounds):
        return
    report = timed(do)
    session.save(replace(session.state, rounds=(*session.state.rounds, report)))
    session.stop_if_asked()


def train_round(session: Session, matrix: Matrix, cell: Cell, size: int) -> StageReport:
    """Train on all groups of a size at once; again without a node that ended it for all."""
    found = StageReport(f"{size}", commands=(command(cell),))
    tries: list[list[GroupTraining]] = []
    slow: list[NodeFault] = []
    while not tries or (slow and len(tries) < MOST_TRIES):
        nodes = [node for node in session.nodes if node.host not in found.lost]
        groups = chunks(nodes, min(size, len(nodes)))
        title = f"training: {len(groups)} x {len(groups[0])} nodes{' again' if tries else ''}"
        ran, end = train(session, matrix, sized(cell, len(groups[0])), groups, title)
        if not end.reason:
            tries.append(ran)
            row, slow = learned.judge_round(tries, session.cluster.device)
            continue
        found, tries, slow = merged(found.stage, (found, end.report(STAGE))), [], []
        if not session.may_repeat(end, found):
            return replace(found, measured=False)
    ran = tries[0]
    return found.adding(
        faults=[*slow, *learned.judge_losses(ran)], notes=learned.same_losses(ran), tests=[row]
    )


def command(cell: Cell) -> str:
    """Say what trains."""
    return f"{cell.system} {cell.pin}: {cell.parameters.get('model', cell.name)}"


def soak(session: Session, matrix: Matrix, cell: Cell, seconds: float) -> StageReport:
    """Train on all nodes for as long as was asked, by the rate that they had before."""
    nodes, device = session.nodes, session.cluster.device
    tests = [test for report in session.state.rounds for test in report.tests]
    rates = [test["reference"] / test["nodes"] * len(nodes) for test in tests] or [1]
    batch = sized(cell, len(nodes)).parameters.get(GLOBAL) or 1
    iterations = int(min(MOST_SOAK_ITERS, max(50, seconds * rates[-1] / batch)))
    matrix = replace(matrix, time_limit_s=2 * seconds + 900)
    long = sized(cell, len(nodes), iterations)
    ran, end = train(session, matrix, long, [tuple(nodes)], "training for long")
    found = merged(SOAK, (StageReport(SOAK, commands=(command(cell),)), end.report(SOAK)))
    if end.reason:
        return replace(found, measured=False)
    return found.adding(faults=learned.judge_soak(ran[0], device))


def train(
    session: Session, matrix: Matrix, cell: Cell, groups: Sequence[Sequence[Node]], title: str
) -> tuple[list[GroupTraining], EarlyEnd]:
    """Carry out one run of several groups; their figures, or how it ended before its time."""
    orders = partial(combined, session, matrix, cell, groups)
    with live(session.console, lambda elapsed_s: f"{title}, {elapsed_s:.0f} s"):
        ran = probing.carried_out(session.checkup, session.engine, session.interrupts, orders)
    session.stop_if_asked()
    hosts = ran.attempt.hosts
    if reason := probing.failed(ran.attempt, (), list(hosts.values()), ran.words):
        return [], EarlyEnd(probing.held_up(ran.attempt, ran.cause), reason, ran.cause)
    trainings, first_rank = [], 0
    for group in groups:
        ranks = range(first_rank, first_rank + len(group))
        measured = measure_run(cell, {rank - ranks[0]: ran.attempt.log(rank) for rank in ranks})
        steps = [step for step in measured.intervals if step.iteration > WARMUP]
        rates = tuple(step.samples_per_s for step in steps if step.samples_per_s)
        losses = tuple(step.loss for step in measured.intervals if step.loss is not None)
        trainings.append(GroupTraining(tuple(hosts[rank] for rank in ranks), rates, losses))
        first_rank += len(group)
    silent = [group.hosts[0] for group in trainings if not group.rates]
    if silent:
        return [], EarlyEnd(tuple(silent), "the trainer's log has no step")
    return trainings, EarlyEnd()
