"""The last stage: each node trains alone, then groups of 2, 4, ... and all; then all for long.

All groups of one size train at once, in one run of the engine: each group's part is what `bench`
would start for it, on its nodes. So each size is a round, and log2(nodes) rounds are enough.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from runner import __version__
from runner.accept.acceptance import AcceptState, NodeFault, StageReport
from runner.accept.learned import (
    GroupTraining,
    judge_losses,
    judge_round,
    judge_soak,
    same_losses,
    scaling,
)
from runner.accept.scope import WORKLOADS, AcceptOptions
from runner.accept.session import LOSSES, EarlyEnd, Session
from runner.accept.trained import Trained
from runner.doctor.probing import held_up
from runner.folder import names
from runner.folder.stored import write_json
from runner.launch.launcher import carry_out, on_a_free_port
from runner.launch.screen import live
from runner.matrix.file import load_matrix, parse_matrix
from runner.plan import checks
from runner.plan.make import make_run
from runner.results.judge import measure_run
from runner.systems.common.launchers import PYTHON
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster, Node
from runner.terms.orders import NodeRun, Orders

STAGE = "training"
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
    cluster: Cluster,
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
    limits, run_id, secrets = None, "", cluster.secrets
    for group in groups:
        run = make_run(
            matrix,
            cell,
            replace(cluster, nodes=tuple(group)),
            campaign=f"accept-{cluster.name}",
            attempt=number,
            port_try=port_try,
        )
        limits, run_id = run.limits, run.id
        for node_run in run.nodes:
            rank = len(parts)
            folder_of_node = (
                str(folder / names.node(rank, node_run.host))
                if cluster.engine.in_jobs
                else node_run.dir
            )
            argv = tuple(word.replace(node_run.dir, folder_of_node) for word in node_run.argv)
            parts.append(replace(node_run, node_rank=rank, dir=folder_of_node, argv=argv))
    assert limits is not None
    placement = cell.placement
    return Orders(run_id, limits, tuple(parts), secrets, placement)


def training(session: Session) -> StageReport:
    """Train on each node alone, on groups of each size, and for long; compare all of it."""
    began_at, began = time.time(), time.monotonic()
    matrix = matrix_of(session.options, session.cluster)
    matrix = replace(matrix, stall_limit_s=min(matrix.stall_limit_s, STALL_S))
    cell = matrix.cells[0]
    checks.check_cells([sized(cell, 1)], session.cluster, matrix.warmup_iters)
    for size in session.options.group_sizes(len(session.nodes)):
        finished_sizes = {round_report.stage for round_report in session.state.rounds}
        if session.nodes and f"{size}" not in finished_sizes:
            keep(session, train_round(session, matrix, cell, size))
    if (
        session.nodes
        and session.options.soak_s
        and not any(round_report.stage == "soak" for round_report in session.state.rounds)
    ):
        keep(session, soak(session, matrix, cell))
    rounds = session.state.rounds
    tests = tuple(test for round_report in rounds for test in round_report.tests)
    notes = tuple(note for round_report in rounds for note in round_report.notes)
    unanswered = tuple(
        dict.fromkeys(reason for round_report in rounds for reason in round_report.unanswered)
    )
    if not rounds:
        unanswered = ("stage training: no group of nodes is left to train",)
    return StageReport(
        STAGE,
        began_at,
        sum(round_report.took_s for round_report in rounds) or time.monotonic() - began,
        tuple(fault for round_report in rounds for fault in round_report.faults),
        (*notes, *scaling(tests)),
        () if session.options.soak_s else ("training for long (--soak)",),
        unanswered,
        tests,
        tuple(host for round_report in rounds for host in round_report.lost),
        tuple(
            dict.fromkeys(command for round_report in rounds for command in round_report.commands)
        ),
        all(round_report.measured for round_report in rounds),
    )


def can_go_on(session: Session) -> bool:
    """Return whether nodes are left; those of a job are all there or, after one was lost, none."""
    given_up = any(not round_report.measured for round_report in session.state.rounds)
    return bool(session.nodes) and not (given_up and session.in_jobs)


def keep(session: Session, report: StageReport) -> None:
    """Keep what a round found, so that an acceptance that is ended goes on behind it."""
    state: AcceptState = session.state
    session.save(replace(state, rounds=(*state.rounds, report)))
    if session.interrupts.count:
        raise KeyboardInterrupt


def train_round(session: Session, matrix: Matrix, cell: Cell, size: int) -> StageReport:
    """Train on all groups of a size at once; again without a node that ended it for all."""
    began_at, began = time.time(), time.monotonic()
    faults: list[NodeFault] = []
    lost: list[str] = []
    unanswered: list[str] = []
    tries: list[list[GroupTraining]] = []
    slow: list[NodeFault] = []
    device, row = session.cluster.device, None
    while not tries or (slow and len(tries) < MOST_TRIES):
        nodes = [node for node in session.nodes if node.host not in lost]
        groups = chunks(nodes, min(size, len(nodes)))
        title = f"training: {len(groups)} x {len(groups[0])} nodes{' again' if tries else ''}"
        ran, end = train(session, matrix, sized(cell, len(groups[0])), groups, title)
        if end.reason:
            faults += end.faults(STAGE)
            unanswered += end.untested(STAGE)
            lost += end.hosts
            tries, slow = [], []
            if not end.hosts or len(faults) > LOSSES or len(lost) >= len(nodes) or session.in_jobs:
                round_report = report(size, began_at, began, faults, lost, [], cell)
                return replace(round_report, unanswered=tuple(unanswered), measured=False)
            continue
        tries.append(ran)
        row, slow = judge_round(tries, device)
    ran = tries[0]
    faults += [*slow, *judge_losses(ran)]
    round_report = report(size, began_at, began, faults, lost, [row] if row else [], cell)
    return replace(round_report, notes=same_losses(ran), unanswered=tuple(unanswered))


def report(
    size: int | str,
    began_at: float,
    began: float,
    faults: Sequence[NodeFault],
    lost: Sequence[str],
    tests: Sequence[Mapping[str, Any]],
    cell: Cell,
) -> StageReport:
    """Return a round as it is kept."""
    took_s = time.monotonic() - began
    command = f"{cell.system} {cell.pin}: {cell.parameters.get('model', cell.name)}"
    return StageReport(
        f"{size}",
        began_at,
        took_s,
        faults=tuple(faults),
        tests=tuple(tests),
        lost=tuple(lost),
        commands=(command,),
    )


def soak(session: Session, matrix: Matrix, cell: Cell) -> StageReport:
    """Train on all nodes for as long as was asked, by the rate that they had before."""
    began_at, began = time.time(), time.monotonic()
    nodes = session.nodes
    rates = [
        test["reference"] / test["nodes"] * len(nodes)
        for round_report in session.state.rounds
        for test in round_report.tests
    ]
    batch = sized(cell, len(nodes)).parameters.get(GLOBAL) or 1
    seconds = session.options.soak_s
    iterations = int(min(MOST_SOAK_ITERS, max(50, seconds * (rates[-1] if rates else 1) / batch)))
    matrix = replace(matrix, time_limit_s=2 * seconds + 900)
    groups = [tuple(nodes)]
    ran, end = train(
        session, matrix, sized(cell, len(nodes), iterations), groups, "training for long"
    )
    faults = end.faults("soak") if end.reason else judge_soak(ran[0], session.cluster.device)
    soaked = report("soak", began_at, began, faults, end.hosts, [], cell)
    return replace(soaked, unanswered=tuple(end.untested(STAGE)), measured=not end.reason)


def train(
    session: Session,
    matrix: Matrix,
    cell: Cell,
    groups: Sequence[Sequence[Node]],
    title: str,
) -> tuple[list[GroupTraining], EarlyEnd]:
    """Carry out one run of several groups; their figures, or how it ended before its time."""
    acceptance, cluster = session.acceptance, session.cluster

    def once(port_try: int) -> Trained:
        attempt = acceptance.new_probe()
        folder = PurePosixPath(attempt.path.resolve())
        orders = combined(
            cluster, matrix, cell, groups, number=attempt.number, port_try=port_try, folder=folder
        )
        content = {"trainbench": __version__, **orders.to_json()}
        write_json(attempt.path / names.RUN, content)
        reason = carry_out(session.engine, acceptance, attempt, orders, session.interrupts)
        return Trained(attempt, reason)

    with live(session.console, lambda elapsed_s: f"{title}, {elapsed_s:.0f} s"):
        trained = on_a_free_port(once, session.interrupts)
    if session.interrupts.count:
        raise KeyboardInterrupt
    if reason := trained.failure:
        cause = trained.cause
        return [], EarlyEnd(held_up(trained.attempt, cause), reason, cause)
    hosts = trained.attempt.hosts
    trainings, first_rank = [], 0
    for group in groups:
        ranks = range(first_rank, first_rank + len(group))
        logs = {local: trained.attempt.log(rank) for local, rank in enumerate(ranks)}
        measured = measure_run(cell, logs)
        steps = [step for step in measured.intervals if step.iteration > WARMUP]
        rates = tuple(step.samples_per_s for step in steps if step.samples_per_s)
        losses = tuple(step.loss for step in measured.intervals if step.loss is not None)
        trainings.append(GroupTraining(tuple(hosts[rank] for rank in ranks), rates, losses))
        first_rank += len(group)
    silent = [group.hosts[0] for group in trainings if not group.rates]
    if silent:
        return [], EarlyEnd(tuple(silent), "the trainer's log has no step")
    return trainings, EarlyEnd()
