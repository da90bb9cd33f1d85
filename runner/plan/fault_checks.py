"""Refuse faults and recoveries that cannot be had, before anything is touched. Pure."""

from runner.base.errors import UserError
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.faults import REQUEUE, SHRINK, SPARE, TORCHRUN, FaultPlan


def check_faults(cell: Cell, cluster: Cluster) -> None:
    """Refuse a cell's `faults`, `recovery` and checkpoints where they do not fit."""
    if not cell.goes_on:
        return
    _check_folder(cell, cluster)
    _check_recovery(cell, cluster)
    if cell.faults:
        _check_places(cell, cell.faults)


def _check_folder(cell: Cell, cluster: Cluster) -> None:
    if cell.nodes_held > 1 and not (cluster.checkpoints or cluster.one_root):
        raise UserError(
            "checkpoints of several nodes need a folder that all of them see; name it as"
            f" cluster_checkpoints in the inventory {cluster.name}"
        )


def _check_recovery(cell: Cell, cluster: Cluster) -> None:
    policy, engine = cell.recovery, cluster.engine
    if policy == SPARE and engine.in_jobs:
        raise UserError(
            f"recovery spare chooses a replacement node, but {engine.title} chooses the nodes;"
            " use restart or requeue"
        )
    if policy == SPARE and len(cluster.nodes) < cell.nodes_held:
        raise UserError(
            f"recovery spare needs {cell.nodes_held} nodes, and the inventory {cluster.name} has"
            f" {len(cluster.nodes)}; lower nodes"
        )
    if policy == SHRINK and cell.nodes < 2:
        raise UserError("recovery shrink goes on with fewer nodes; raise nodes to 2 or more")
    if policy == TORCHRUN and cell.parameters.get("launcher") != TORCHRUN:
        raise UserError("recovery torchrun needs launcher torchrun; take restart")
    if policy == REQUEUE and not engine.in_jobs:
        raise UserError("recovery requeue is Slurm's; take restart, or an inventory of Slurm")


def _check_places(cell: Cell, faults: FaultPlan) -> None:
    counter = load_system(cell.system).counter(cell.parameters)
    iterations = cell.parameters.get("train_iters")
    for fault in faults.planned:
        if fault.node >= cell.nodes:
            raise UserError(
                f"faults: {fault.kind} names node {fault.node}, and the cell has nodes 0 to"
                f" {cell.nodes - 1}"
            )
        if fault.rank >= cell.devices_per_node:
            raise UserError(
                f"faults: {fault.kind} names rank {fault.rank} of a node, which has ranks 0 to"
                f" {cell.devices_per_node - 1}"
            )
        if fault.iteration and not counter:
            raise UserError(
                f"faults: iterations of {cell.system} cannot be tracked on a node; use after_s"
            )
        if fault.iteration and iterations is not None and fault.iteration >= iterations:
            raise UserError(
                f"faults: {fault.kind} comes after iteration {fault.iteration}, and train_iters is"
                f" {iterations}; lower it"
            )
