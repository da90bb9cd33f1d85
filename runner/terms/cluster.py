"""A cluster as data: the machines of one inventory, and how they run containers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from runner.base.errors import UserError
from runner.base.paths import FOLDER, PROJECT
from runner.terms.container_engines import Containers
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.ssh import Ssh

DEVICES = ("cpu", "cuda", "npu")
LOST_CONTACT_S = 30.0  # as roles/validate has it; a busy control machine is so late at times
CANN_HOME = "/usr/local/Ascend/ascend-toolkit"  # as roles/npu/defaults has it


@dataclass(frozen=True)
class Node:
    """One machine: its inventory name, its address for rendezvous, its devices, its root.

    `switch` names its leaf switch, where the inventory does; Slurm knows its own nodes'.
    """

    host: str
    address: str
    devices: int
    root: PurePosixPath
    switch: str = ""


@dataclass(frozen=True)
class Cluster:
    """The machines of one inventory, in its order.

    `secrets` are variables of cluster_env that are named like secrets: roles/launch reads their
    values from the inventory, and the runner holds none. `engine` says how runs are started; where
    nodes come with a job, they are `rank0` and so on here, with the words that the job fills in.
    `scratch` is a folder on a disk of each
    node's own. `root_shared`: all nodes see one folder as their root. `command_pins` are the
    names of the pin sets that it declares for system command. `group` may write to folders of runs,
    too, whose files are executed. `checkpoints` is a folder that all nodes see, for those of runs.
    """

    name: str
    path: Path
    device: str
    nodes: tuple[Node, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    device_memory_mib: float | None = None
    lost_contact_s: float = LOST_CONTACT_S
    containers: Containers = field(default_factory=Containers)
    secrets: tuple[str, ...] = ()
    cann_home: str = CANN_HOME
    engine: EngineSettings = field(default_factory=Ssh)
    scratch: PurePosixPath | None = None
    root_shared: bool = False
    command_pins: tuple[str, ...] = ()
    group: str = ""
    checkpoints: PurePosixPath | None = None

    def knowing(self, pins: Collection[str]) -> Cluster:
        """Return it with these pin sets of a matrix among those that cells may name."""
        return replace(self, command_pins=(*dict.fromkeys((*self.command_pins, *pins)),))

    @property
    def one_root(self) -> bool:
        """Whether what setup put there once is on every node."""
        return self.root_shared or self.engine.in_jobs

    def run_folder(self, node: Node, run_id: str) -> PurePosixPath:
        """Return where a run is on a node; below a root that nodes share, each has its own.

        Else it has the same path everywhere: a launcher that works over ssh (deepspeed) starts
        processes of other nodes with the paths of its own.
        """
        host_folder = (node.host,) if self.root_shared else ()
        return node.root.joinpath("runs", *host_folder, run_id)

    def chain_folder(self, chain_id: str) -> PurePosixPath:
        """Return where a repeat's checkpoints lie; `chain_id` is the id of its first attempt."""
        above = self.checkpoints or self.nodes[0].root / "runs" / ".checkpoints"
        return above / chain_id

    def devices_of(self, nodes: int) -> int:
        """Return the devices that each of the first `nodes` has.

        Raises UserError where they have different numbers of them.
        """
        hosts_by_count = {node.devices: node.host for node in self.nodes[:nodes]}
        if len(hosts_by_count) > 1:
            have = ", ".join(f"{host} has {devices}" for devices, host in hosts_by_count.items())
            raise UserError(
                "the matrix gives no devices_per_node, and the nodes of a cell have different"
                f" numbers of devices ({have}: cluster_devices_per_node of the inventory"
                f" {self.name}); give it under `defaults`"
            )
        return next(iter(hosts_by_count))

    @property
    def addresses(self) -> dict[str, str]:
        """Each node's address, by its name."""
        return {node.host: node.address for node in self.nodes}

    @property
    def label(self) -> str:
        """The name; outside of the own folder's inventory/, and ours, with a mark of the folder.

        `__verify_name` of roles/verify is the same; a test compares them.
        """
        path = self.path.resolve()
        folder = path if path.is_dir() else path.parent
        if any(folder.is_relative_to(base / "inventory") for base in (FOLDER, PROJECT)):
            return self.name
        return f"{self.name}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"

    @property
    def facts(self) -> dict[str, Any]:
        """What runs of one campaign must have alike; `nodes` has host, address, devices, root.

        Keys of their defaults are left out, as they are of `digest`.
        """
        alike = self.nodes[:1] if self.engine.in_jobs else self.nodes
        rest_of_nodes = {
            "cann_home": (self.cann_home, CANN_HOME),
            "scratch": (str(self.scratch or ""), ""),
            "root_shared": (self.root_shared, False),
        }
        return {
            "device": self.device,
            "nodes": [[node.host, node.address, node.devices, str(node.root)] for node in alike],
            "env": dict(self.env),
            "containers": {k: v for k, v in asdict(self.containers).items() if v}
            if self.containers != Containers()
            else {},
            "engine": dict(self.engine.facts),
            **{key: value for key, (value, default) in rest_of_nodes.items() if value != default},
        }

    @property
    def digest(self) -> str:
        """What a campaign belongs to: changes with any address, device, root or plain variable."""
        # More nodes of a job are no other cluster.
        alike = self.nodes[:1] if self.engine.in_jobs else self.nodes
        facts = [
            self.device,
            [(node.host, node.address, node.devices, str(node.root)) for node in alike],
            sorted(self.env.items()),
            *([astuple(self.containers)] if self.containers != Containers() else []),
            *([self.cann_home] if self.cann_home != CANN_HOME else []),
            *([self.engine.facts] if self.engine != Ssh() else []),
            *([str(self.scratch)] if self.scratch else []),
            *(["root_shared"] if self.root_shared else []),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
