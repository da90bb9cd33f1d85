"""A run as data: what each node starts, and run.json, which holds all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from runner import __version__
from runner.terms.cell import Cell
from runner.terms.cluster import Containers


@dataclass(frozen=True)
class Command:
    """What one node starts: by exec, without a shell.

    `argv[0]` is an absolute path on the node. An empty `argv` is a node whose processes another
    node's launcher starts (deepspeed, over ssh): it prepares its files, and waits for the end.
    `env` is added to a small base environment (HOME, USER, LANG); nothing else is inherited.
    `files` are written into the run's folder on the node first (name to text). `requires` must
    exist before anything starts (path to bytes, or None). `ports` must be free on this node, beside
    the run's own. `picks_devices`: argv names the cell's `device_ids` itself, so that no
    CUDA_VISIBLE_DEVICES is set, which such a launcher would count them within. `ssh`: the processes
    of other nodes are started over ssh.

    `serves`: this process lets another node's launcher in, and ends when that has ended. `after`
    runs once all processes have ended, however they did (runner/plan/containers.py sets both).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, int | None] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    picks_devices: bool = False
    ssh: bool = False
    serves: bool = False
    after: tuple[tuple[str, ...], ...] = ()


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


def read_run(content: Mapping[str, Any]) -> Run:
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
