"""A cell on a cluster as what each node runs. Pure: the same input gives the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from runner import __version__, containers, systems
from runner.cluster import Cluster
from runner.containers import Containers
from runner.matrix import Cell, Matrix
from runner.paths import BASE_PATH, dataset_home, system_home
from runner.systems.base import Command

# Below Linux's ephemeral range (32768 and up), so that no outgoing connection takes one.
PORTS = range(20_000, 30_000)
GRACE_S = 5.0  # between TERM and KILL
LOG_CAP_BYTES = 256 * 1024 * 1024  # of a node's log that is brought to the control node
LOG_LIMIT_BYTES = 4 * 1024**3  # of a node's log, then the run is ended: before its disk is full


@dataclass(frozen=True)
class NodeContext:
    """What a system needs to know of one node of a run to write its command."""

    node_rank: int
    nnodes: int
    nproc_per_node: int
    addresses: tuple[str, ...]  # of the run's nodes, by rank
    master_address: str
    master_port: int
    home: PurePosixPath
    dataset: PurePosixPath
    run_dir: PurePosixPath
    device: str
    device_ids: tuple[int, ...] | None
    # Variables of every run, which the system's win over; and the cluster's and the cell's, which
    # win over those. For a launcher that has to be told what the other nodes' processes get.
    base_env: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    image: str = ""  # of a pin set that is one
    containers: Containers = field(default_factory=Containers)
    cann_home: str = ""  # the folder with CANN's set_env.sh

    def program(self, name: str) -> str:
        """A program of the pin set: in its environment, or on the PATH of its image."""
        return name if self.image else f"{self.home}/env/bin/{name}"


@dataclass(frozen=True)
class NodeRun:
    """One node's part of a run. `dir` and `runs` are folders on the node.

    `serves` and `after`: see `Command`.
    """

    host: str
    node_rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, str]
    requires: Mapping[str, int | None]
    ports: tuple[int, ...]
    device: str
    device_ids: tuple[int, ...]
    runs: str
    dir: str
    serves: bool = False
    after: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Run:
    """One attempt of one repeat of a cell, ready to launch; run.json is this as data.

    `rerun_of` is the id of the recorded run that this one repeats, if it does. `secrets` are names
    of variables whose values roles/launch takes from the inventory: no plan holds them.
    """

    campaign: str
    cell: Cell
    repeat: int
    attempt: int
    warmup_iters: int | None
    time_limit_s: float
    stall_limit_s: float
    lost_contact_s: float
    master_address: str
    master_port: int
    nodes: tuple[NodeRun, ...]
    rerun_of: str | None = None
    secrets: tuple[str, ...] = ()

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
                "stall_limit_s": self.stall_limit_s,
                "lost_contact_s": self.lost_contact_s,
                "grace_s": GRACE_S,
                "log_cap_bytes": LOG_CAP_BYTES,
                "log_limit_bytes": LOG_LIMIT_BYTES,
            },
            "nodes": [asdict(node) for node in self.nodes],
            "secrets": list(self.secrets),
            **({"rerun_of": self.rerun_of} if self.rerun_of else {}),
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
    image = containers.image_of(cell.system, cell.pin)
    nodes = []
    for rank, node in enumerate(cluster.nodes[: cell.nodes]):
        data = dataset_home(node.root, cell.dataset)
        home = system_home(node.root, cell.system, cell.pin)
        context = NodeContext(
            node_rank=rank,
            nnodes=cell.nodes,
            nproc_per_node=cell.devices_per_node,
            addresses=tuple(each.address for each in cluster.nodes[: cell.nodes]),
            master_address=master,
            master_port=port,
            home=home,
            dataset=data,
            run_dir=node.root / "runs" / run_id,
            device=cluster.device,
            device_ids=cell.device_ids,
            base_env=_base_env(home, cluster, image),
            env={**cluster.env, **cell.env},
            image=image,
            containers=cluster.containers,
            cann_home=cluster.cann_home,
        )
        command = system.command(cell, context)
        env = _env(command, cell, cluster, context)
        if image:
            names = (*env, *cluster.secrets)
            command = containers.wrap(command, names, context, node.root)
            env = {"PATH": BASE_PATH, **env}  # the engine's own
        required = {str(data / name): size for name, size in (dataset_sizes or {}).items()}
        nodes.append(
            NodeRun(
                host=node.host,
                node_rank=rank,
                argv=command.argv,
                env=env,
                cwd=command.cwd,
                files=command.files,
                requires={**command.requires, **required},
                ports=((port,) if rank == 0 else ()) + command.ports,
                device=cluster.device,
                device_ids=cell.device_ids or tuple(range(cell.devices_per_node)),
                runs=str(node.root / "runs"),
                dir=str(context.run_dir),
                serves=command.serves,
                after=command.after,
            )
        )
    return Run(
        campaign=campaign,
        cell=cell,
        repeat=repeat,
        attempt=attempt,
        warmup_iters=matrix.warmup_iters,
        time_limit_s=matrix.time_limit_s,
        stall_limit_s=matrix.stall_limit_s,
        lost_contact_s=cluster.lost_contact_s,
        master_address=master,
        master_port=port,
        nodes=tuple(nodes),
        secrets=cluster.secrets,
    )


def read(content: Mapping[str, Any]) -> Run:
    """The run that a run.json holds. Raises KeyError or TypeError for one of another version."""
    words = {key: value for key, value in content["cell"].items() if key != "id"}
    ids = words["device_ids"]
    cell = Cell(**{**words, "device_ids": None if ids is None else tuple(ids)})
    tuples = ("argv", "ports", "device_ids")
    nodes = [
        NodeRun(
            **{
                **node,
                **{key: tuple(node[key]) for key in tuples},
                "after": tuple(tuple(argv) for argv in node.get("after", ())),
            }
        )
        for node in content["nodes"]
    ]
    return Run(
        campaign=content["campaign"],
        cell=cell,
        repeat=content["repeat"],
        attempt=content["attempt"],
        warmup_iters=content["warmup_iters"],
        time_limit_s=content["supervisor"]["time_limit_s"],
        stall_limit_s=content["supervisor"]["stall_limit_s"],
        lost_contact_s=content["supervisor"]["lost_contact_s"],
        master_address=content["master_address"],
        master_port=content["master_port"],
        nodes=tuple(nodes),
        rerun_of=content.get("rerun_of"),
        secrets=tuple(content.get("secrets", ())),
    )


def port_of(run_id: str, port_try: int = 0) -> int:
    """A port of the run's own, the same on every node and in a dry run."""
    digest = hashlib.sha256(f"{run_id}#{port_try}".encode()).digest()
    return PORTS[int.from_bytes(digest[:4], "big") % len(PORTS)]


def _base_env(home: PurePosixPath, cluster: Cluster, image: str) -> dict[str, str]:
    """What every process of a run has, whatever its system. An image has a PATH of its own."""
    env = {} if image else {"PATH": f"{home}/env/bin:{BASE_PATH}"}
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONFAULTHANDLER"] = "1"  # a segfault, or a stall's ABRT, leaves stacks in the log
    if cluster.device == "cuda":
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # device ids are nvidia-smi's
    return env


def _env(command: Command, cell: Cell, cluster: Cluster, context: NodeContext) -> dict[str, str]:
    """The base, then the system's, the cluster's and the cell's variables: the last one wins."""
    env = dict(context.base_env)
    if cell.device_ids is not None and cluster.device == "cuda" and not command.picks_devices:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(str(number) for number in cell.device_ids)
    return {**env, **command.env, **context.env}
