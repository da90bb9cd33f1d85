"""A cell's profiler: what is refused, and nsys around what a node starts. Pure.

A trainer's own profiler is options of its own command (runner/systems/); nsys is the same for all.
"""

from dataclasses import replace

from runner.base.errors import UserError
from runner.plan.containers import image_of
from runner.terms.cell import Cell
from runner.terms.cluster import Cluster
from runner.terms.profile import NSYS
from runner.terms.run import Command, NodeContext

_STARTS_OVER_SSH = ("deepspeed", "first_node")  # launchers of the processes of other nodes


def check_profile(cell: Cell, cluster: Cluster) -> None:
    """Refuse what cannot be traced, and a trace that leaves nothing to count."""
    profile = cell.profile
    if profile is None:
        return
    if profile.ranks and max(profile.ranks) >= cell.world_size:
        raise UserError(
            f"profile: ranks has {max(profile.ranks)}, and the cell has 0 to {cell.world_size - 1}"
        )
    iterations = cell.parameters.get("train_iters")
    least = profile.until + (cell.parameters.get("log_interval") or 1)
    if profile.last and iterations is not None and iterations < least:
        raise UserError(
            f"profile: figures count the steps after {profile.until}, and train_iters is"
            f" {iterations}; make it {least} or more, or name earlier steps:"
            f" profile: {{tool: {profile.tool}, steps: 4-6}}"
        )
    if profile.tool == NSYS:
        _check_nsys(cell, cluster)


def _check_nsys(cell: Cell, cluster: Cluster) -> None:
    if cluster.device != "cuda":
        raise UserError(f"profile: nsys traces CUDA, and cluster_device is {cluster.device}")
    if image_of(cell.system, cell.pin):
        raise UserError(f"profile: pin {cell.pin} is an image, which has no nsys; take another pin")
    launcher = cell.parameters.get("launcher")
    if launcher in _STARTS_OVER_SSH and cell.nodes > 1:
        raise UserError(
            f"profile: nsys follows processes of its own node, and launcher {launcher} starts"
            " those of others over ssh; take another launcher, or one node"
        )


def with_nsys(command: Command, cell: Cell, node: NodeContext) -> Command:
    """Put nsys before what the node starts, if it is asked for and one of its ranks is traced."""
    profile, first_rank = cell.profile, node.node_rank * node.nproc_per_node
    ranks = range(first_rank, first_rank + node.nproc_per_node)
    if profile is None or profile.tool != NSYS or not command.argv or not profile.covers(ranks):
        return command
    chosen = ("--capture-range=cudaProfilerApi", "--capture-range-end=stop") if profile.last else ()

    def traced(argv: tuple[str, ...], name: str) -> tuple[str, ...]:
        options = ("--sample=none", "--cpuctxsw=none", "--trace=cuda,nvtx", *chosen)
        output = f"--output={node.run_dir}/{name}"
        return (profile.program, "profile", *options, "--force-overwrite=true", output, *argv)

    required = {**command.requires, profile.program: None}
    if command.processes:
        each = tuple(
            traced(argv, f"rank{rank}") if profile.covers(range(rank, rank + 1)) else argv
            for rank, argv in zip(ranks, command.processes, strict=True)
        )
        return replace(command, argv=each[0], processes=each, requires=required)
    return replace(command, argv=traced(command.argv, f"node{node.node_rank}"), requires=required)
