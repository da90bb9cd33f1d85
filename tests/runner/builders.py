"""Small matrices, clusters and plans for unit tests."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from node.supervisor.placeholders import node_addr
from runner.matrix.file import parse_matrix
from runner.plan.make import make_run
from runner.terms.cell import Matrix
from runner.terms.cluster import Cluster, Node
from runner.terms.engines.slurm import Slurm
from runner.terms.run import Run


def small_matrix(
    axes: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    **more: Any,
) -> Matrix:
    """A matrix of torch_gpt cells, named `m` unless told otherwise."""
    content = {"defaults": {"system": "torch_gpt", **(defaults or {})}, **more}
    if axes:
        content["axes"] = dict(axes)
    return parse_matrix(json.dumps(content), "m.yaml", "m", one_device)


def one_device(nodes: int) -> int:
    """Say that each node has one device, to a matrix that names no devices_per_node."""
    return 1


def small_cluster(nodes: int = 2, devices: int = 2, root: str = "/opt/tb", **more: Any) -> Cluster:
    """Nodes n1, n2, ... at 10.0.0.1, 10.0.0.2, ..."""
    return Cluster(
        name=more.pop("name", "rack"),
        path=Path("inventory/rack"),
        device=more.pop("device", "cpu"),
        nodes=tuple(
            Node(f"n{number}", f"10.0.0.{number}", devices, PurePosixPath(root))
            for number in range(1, nodes + 1)
        ),
        **more,
    )


def slurm_cluster(nodes: int = 2, devices: int = 2, root: str = "/opt/tb", **keys: Any) -> Cluster:
    """A cluster whose nodes only a job knows; `keys` are Slurm's, without their prefix."""
    return Cluster(
        name="rack",
        path=Path("inventory/rack"),
        device=keys.pop("device", "cpu"),
        env=keys.pop("env", {}),
        nodes=tuple(
            Node(f"rank{rank}", node_addr(rank), devices, PurePosixPath(root))
            for rank in range(nodes)
        ),
        engine=Slurm(nodes=nodes, **keys),
    )


def small_run(defaults: Mapping[str, Any], cluster: Cluster, **more: Any) -> Run:
    """The plan of a matrix with one cell."""
    found = small_matrix(defaults=defaults)
    return make_run(found, found.cells[0], cluster, campaign="m-rack", **more)
