"""A cell on a cluster as what each node runs. Pure: the same input gives the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from runner import __version__, systems
from runner.cluster import Cluster
from runner.matrix import Cell, Matrix
from runner.paths import dataset_home, system_home

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes one.
PORTS = range(20_000, 30_000)
GRACE_S = 5.0  # between TERM and KILL
LOG_CAP_BYTES = 256 * 1024 * 1024
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class NodeContext:
    """What a system needs to know of one node of a run to write its command."""

    node_rank: int
    nnodes: int
    nproc_per_node: int
    master_address: str
    master_port: int
    home: PurePosixPath
    dataset: PurePosixPath
    run_dir: PurePosixPath
    device: str
    device_ids: tuple[int, ...] | None


@dataclass(frozen=True)
class NodeRun:
    """One node's part of a run. `dir` and `runs` are folders on the node."""

    host: str
    node_rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, str]
    requires: Mapping[str, int | None]
    ports: tuple[int, ...]
    runs: str
    dir: str


@dataclass(frozen=True)
class Run:
    """One attempt of one repeat of a cell, ready to launch; run.json is this as data."""

    campaign: str
    cell: Cell
    repeat: int
    attempt: int
    warmup_iters: int
    time_limit_s: float
    lost_contact_s: float
    master_address: str
    master_port: int
    nodes: tuple[NodeRun, ...]

    @property
    def id(self) -> str:
        """Names the run on every node: campaign, cell, repeat and attempt."""
        return f"{self.campaign}/{self.cell.id}/r{self.repeat}a{self.attempt}"

    def to_json(self) -> dict[str, Any]:
        """What run.json holds; roles/launch reads `nodes`, `run_id` and `supervisor` from it."""
        return {
            "schema": 1,
            "trainbench": __version__,
            "run_id": self.id,
            "campaign": self.campaign,
            "cell": {**asdict(self.cell), "id": self.cell.id},
            "repeat": self.repeat,
            "attempt": self.attempt,
            "warmup_iters": self.warmup_iters,
            "master_address": self.master_address,
            "master_port": self.master_port,
            "supervisor": {
                "time_limit_s": self.time_limit_s,
                "lost_contact_s": self.lost_contact_s,
                "grace_s": GRACE_S,
                "log_cap_bytes": LOG_CAP_BYTES,
            },
            "nodes": [asdict(node) for node in self.nodes],
        }


def make(
    matrix: Matrix,
    cell: Cell,
    cluster: Cluster,
    *,
    campaign: str,
    repeat: int = 1,
    attempt: int = 1,
    port_try: int = 0,
    dataset_sizes: Mapping[str, int] | None = None,
) -> Run:
    """Plan one run. `dataset_sizes` (file name to bytes) is required of each node if known."""
    run_id = f"{campaign}/{cell.id}/r{repeat}a{attempt}"
    port = port_of(run_id, port_try)
    master = cluster.nodes[0].address
    system = systems.load(cell.system)
    nodes = []
    for rank, node in enumerate(cluster.nodes[: cell.nodes]):
        data = dataset_home(node.root, cell.dataset)
        context = NodeContext(
            node_rank=rank,
            nnodes=cell.nodes,
            nproc_per_node=cell.devices_per_node,
            master_address=master,
            master_port=port,
            home=system_home(node.root, cell.system, cell.pin),
            dataset=data,
            run_dir=node.root / "runs" / run_id,
            device=cluster.device,
            device_ids=cell.device_ids,
        )
        command = system.command(cell, context)
        required = {str(data / name): size for name, size in (dataset_sizes or {}).items()}
        nodes.append(
            NodeRun(
                host=node.host,
                node_rank=rank,
                argv=command.argv,
                env=_env(command.env, cell, cluster, context),
                cwd=command.cwd,
                files=command.files,
                requires={**command.requires, **required},
                ports=(port,) if rank == 0 else (),
                runs=str(node.root / "runs"),
                dir=str(context.run_dir),
            )
        )
    return Run(
        campaign=campaign,
        cell=cell,
        repeat=repeat,
        attempt=attempt,
        warmup_iters=matrix.warmup_iters,
        time_limit_s=matrix.time_limit_s,
        lost_contact_s=cluster.lost_contact_s,
        master_address=master,
        master_port=port,
        nodes=tuple(nodes),
    )


def port_of(run_id: str, port_try: int = 0) -> int:
    """A port of the run's own, the same on every node and in a dry run."""
    digest = hashlib.sha256(f"{run_id}#{port_try}".encode()).digest()
    return PORTS[int.from_bytes(digest[:4], "big") % len(PORTS)]


def _env(
    command: Mapping[str, str], cell: Cell, cluster: Cluster, context: NodeContext
) -> dict[str, str]:
    """PATH, then the system's, the cluster's and the cell's variables: the last one wins."""
    env = {"PATH": f"{context.home}/env/bin:{BASE_PATH}", "PYTHONUNBUFFERED": "1"}
    if cell.device_ids is not None and cluster.device == "cuda":
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(number) for number in cell.device_ids)
    return {**env, **command, **cluster.env, **cell.env}
