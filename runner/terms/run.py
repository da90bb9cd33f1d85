"""A run as data: what each node starts, and run.json, which holds all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any

from node.schema import Whole
from node.supervisor.names import EVENTS, TRACES
from node.validated_text import FileName, Sha256
from runner import __version__
from runner.terms.cell import Cell
from runner.terms.container_engines import Containers
from runner.terms.orders import Chain, Limits, Line, Nodes, Orders, Port, Variable


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
    of other nodes are started over ssh. `processes`: the argv of each, where the node starts
    several in place of `argv`, which is then the first; its part ends with the first that fails.

    `serves`: this process lets another node's launcher in, and ends when that has ended. `after`
    runs once all processes have ended, however they did. `tasks`: srun starts so many on the node,
    each a process of `argv` with the ranks that Slurm gives it; 0: one, which starts `argv`.
    `step`: options by which srun has the node's whole task in a container, the supervisor too
    (runner/plan/containers.py sets the three).
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
    step: tuple[str, ...] = ()
    processes: tuple[tuple[str, ...], ...] = ()
    tasks: int = 0


@dataclass(frozen=True)
class NodeContext:
    """What a system needs to know of one node of a run to write its command.

    `home` and `dataset` are folders of the cell's pin set and dataset; of a cell without one they
    are the run's own, where nothing of another's lies.
    """

    node_rank: int
    nnodes: int
    nproc_per_node: int
    addresses: tuple[str, ...]  # of the run's nodes, by rank
    master_address: str
    master_port: str  # or the word for it
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
    scratch: str = ""  # a folder of the run's own on the node's disk
    cann_home: str = ""  # the folder with CANN's set_env.sh
    checkpoints: str = ""  # the folder of the repeat's checkpoints, which all nodes see

    @property
    def in_job(self) -> bool:
        """Whether a job gives the node, its devices and the port."""
        return not self.master_port.isdecimal()

    @property
    def ports(self) -> tuple[int, ...]:
        """The run's port, for a node that needs it beside the first; where it is known before."""
        return () if self.in_job else (int(self.master_port),)

    @property
    def events(self) -> str:
        """The folder on the node whose TensorBoard files are brought home."""
        return f"{self.run_dir}/{EVENTS}"

    @property
    def traces(self) -> str:
        """The folder on the node whose profiler traces are brought home."""
        return f"{self.run_dir}/{TRACES}"

    def program(self, name: str) -> str:
        """Return a program of the pin set: in its environment, or on the PATH of its image."""
        return name if self.image else f"{self.home}/env/bin/{name}"


@dataclass(frozen=True)
class ImportedLog:
    """A log that was brought in: what its file was called, and its bytes."""

    name: Line
    sha256: Annotated[str, Sha256]
    bytes: Annotated[int, Whole()]


@dataclass(frozen=True)
class Imported:
    """Of a run that this project did not start: its logs by rank, and what the user said of them.

    `system` is the trainer that their lines are of (else the family), `device`
    what nvidia-smi calls the devices.
    """

    logs: tuple[ImportedLog, ...]
    system: Line = ""
    device: Line = ""


@dataclass(frozen=True)
class Run:
    """One attempt of one repeat of a cell, ready to launch; run.json is this as data.

    `secrets` are names of variables whose values roles/launch takes from the inventory: no plan
    holds them. One that was `imported` has no command. `setup` and `teardown`: see `Orders`.
    """

    campaign: Annotated[str, FileName]
    cell: Cell
    repeat: Annotated[int, Whole(1)]
    attempt: Annotated[int, Whole(1)]
    warmup_iters: int | None
    limits: Limits = field(metadata={"key": "supervisor"})
    master_address: Line
    master_port: Port
    nodes: Nodes
    secrets: tuple[Variable, ...] = ()
    imported: Imported | None = None
    setup: tuple[Line, ...] = ()
    teardown: tuple[Line, ...] = ()
    chain: Chain | None = None

    @property
    def id(self) -> str:
        """Names the run on every node: campaign, cell, repeat and attempt."""
        return f"{self.campaign}/{self.cell.id}/r{self.repeat}a{self.attempt}"

    @property
    def orders(self) -> Orders:
        """What of it an engine needs to know."""
        return Orders(
            self.id,
            self.limits,
            self.nodes,
            self.secrets,
            self.cell.placement,
            self.setup,
            self.teardown,
            self.chain,
        )

    def to_json(self) -> dict[str, Any]:
        """Return what run.json holds; the launch plugin reads the orders of it."""
        return {
            "schema": 1,
            "trainbench": __version__,
            "run_id": self.id,
            "campaign": self.campaign,
            "cell": asdict(self.cell),
            "repeat": self.repeat,
            "attempt": self.attempt,
            "warmup_iters": self.warmup_iters,
            "master_address": self.master_address,
            "master_port": self.master_port,
            **self.orders.to_json(),
            **({"imported": asdict(self.imported)} if self.imported else {}),
        }
