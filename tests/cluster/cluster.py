"""A cluster: from nothing to nodes that Ansible can reach, and back to nothing."""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from . import inventory, network, registry, setup
from .cgroups import remove_groups
from .gpus import shares as gpu_shares
from .node import Node
from .processes import inits, kill_and_wait
from .registry import Record
from .system import (
    ClusterError,
    Identity,
    RefusedError,
    identity,
    missing,
    overlay_works_on,
    run,
    uninterrupted,
    wait_for,
)

NAME = re.compile(r"[a-z][a-z0-9]{0,8}")  # it goes into interface names: 15 characters in all
LEFTOVER_GRACE_S = 15.0  # what a closed connection started may take so long to end
_serial = itertools.count()


class Cluster:
    """Test nodes node1..nodeN on one bridge.

    ``directory`` (default: a new folder in /var/tmp) takes all files, and goes with the cluster.
    ``shared`` is a folder that the nodes share, at the same path as on this machine.
    ``upper_size_mib`` keeps each node's disk in memory with that size, else it is on the machine's
    disk; ``shared_size_mib`` does so with ``shared``.  ``memory_mib`` limits each node's memory.
    ``gpus`` is a folder of device files (/dev) whose NVIDIA GPUs the nodes share out.
    ``variables`` become the inventory's group_vars/all/variables.yml.  ``owner`` is the process
    that the cluster belongs to, if not this one.
    """

    def __init__(
        self,
        nodes: int = 4,
        *,
        name: str | None = None,
        directory: Path | None = None,
        upper_size_mib: int | None = None,
        memory_mib: int | None = None,
        shared_size_mib: int | None = None,
        gpus: Path | None = None,
        variables: Mapping[str, Any] | None = None,
        owner: int | None = None,
    ) -> None:
        """Check the options, raising ClusterError; nothing is made before ``up``."""
        self.size = network.checked_size(nodes)
        # the machine has one namespace of names: make one that no other process makes
        self.name = name or f"t{os.getpid():x}{'abcdefghijklmnopqrstuvwxyz'[next(_serial) % 26]}"
        if not NAME.fullmatch(self.name) or self.name == "before":
            raise RefusedError(
                f"cluster name {self.name!r}: use up to 9 small letters and digits, a letter first"
            )
        sizes = {"upper_size_mib": upper_size_mib, "memory_mib": memory_mib}
        for option, size in {**sizes, "shared_size_mib": shared_size_mib}.items():
            if size is not None and size < 16:
                raise RefusedError(f"{option} is {size}: a node needs 16 MiB at least")
        self._devices = gpu_shares(gpus, nodes) if gpus else [[] for _ in range(nodes)]
        self.nodes: list[Node] = []
        self._directory = directory
        self._upper_size_mib = upper_size_mib
        self._memory_mib = memory_mib
        self._shared_size_mib = shared_size_mib
        self._variables = dict(variables or {})
        self._owner = owner or os.getpid()
        self._record: Record | None = None

    @classmethod
    def load(cls, name: str) -> Cluster:
        """The cluster that is up under this name; raises ClusterError when none is."""
        record = registry.load(name)
        if record is None:
            raise RefusedError(f"no cluster {name} is up")
        cluster = cls(record.nodes, name=name)
        cluster._adopt(record)
        return cluster

    def _adopt(self, record: Record) -> None:
        self._record = record
        self.nodes = [Node(record, number) for number in range(1, record.nodes + 1)]

    @property
    def record(self) -> Record:
        """What the registry knows; raises ClusterError while the cluster is down."""
        if self._record is None:
            raise ClusterError(f"cluster {self.name} is not up")
        return self._record

    @property
    def directory(self) -> Path:
        """The folder with keys, known_hosts, ssh_config and inventory."""
        return Path(self.record.directory)

    @property
    def inventory(self) -> Path:
        """The Ansible inventory folder."""
        return self.directory / "inventory"

    @property
    def shared(self) -> Path:
        """The folder that every node shares, at the same path as on this machine."""
        return self.record.shared

    @property
    def no_internet(self) -> str | None:
        """Why the nodes cannot reach beyond this machine; None when they can."""
        return self.record.no_internet

    def __enter__(self) -> Cluster:
        return self.up()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # Up

    def up(self, *, stay: bool = False) -> Cluster:
        """Bring the nodes up; ``stay``: they outlive this process.

        An earlier cluster of this name whose owner died is removed first.  On any error and on
        Ctrl-C all that was made is removed again.  Raises ClusterError.
        """
        lacking = missing()
        if lacking:
            raise RefusedError(lacking)
        inventory.interpreter()
        sweep(self.name)
        directory = self._choose_directory()
        try:
            self._adopt(self._claim(directory))
            self._start()
            if stay:
                self.record.owner = None
                registry.save(self.record)
        except BaseException:
            with uninterrupted():
                record = registry.load(self.name)
                if record is not None and record.directory == str(directory):
                    self.down()
            raise
        return self

    def _choose_directory(self) -> Path:
        if self._directory is None:
            # not in /tmp, which may be small and in memory; nodes have a /var/tmp of their own
            return Path(f"/var/tmp/trainbench-{self.name}-{secrets.token_hex(4)}")
        directory = self._directory.resolve()
        if set(str(directory)) & set(",:\\\"'"):
            raise RefusedError(f"{directory}: overlay mounts take no comma, colon, quote or \\")
        if directory.exists() and any(directory.iterdir()):
            raise RefusedError(f"{directory} is not empty, and `down` would remove it: name a new")
        return directory

    def _claim(self, directory: Path) -> Record:
        """Take the name and a network, so that nobody else does."""
        with registry.locked():
            if registry.load(self.name) is not None:
                raise RefusedError(f"cluster {self.name} is up already, or being brought up")
            registry.remember_machine()
            record = Record(
                name=self.name,
                directory=str(directory),
                subnet=network.free_subnet(each.subnet for each in registry.records()),
                nodes=self.size,
                upper_size_mib=self._upper_size_mib,
                memory_mib=self._memory_mib,
                owner=identity(self._owner) or Identity(self._owner, 0),
                checkout=registry.CHECKOUT,
            )
            registry.save(record)  # before anything is made: what has no record is never removed
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
            setup.make_shared(record.shared, self._shared_size_mib)
            record.control_paths.mkdir(mode=0o700)
            # `ip netns add` of two processes at once can trip over the folder's first mount
            network.create(self.name, record.subnet, self.size)
            record.no_internet = network.open_way_out(self.name, record.subnet)
            registry.save(record)
        return record

    def _start(self) -> None:
        key = inventory.make_key(self.directory / "id_ed25519", f"trainbench {self.name}")
        addresses = {node.hostname: node.address for node in self.nodes}
        hosts = network.hosts_file(addresses)
        resolv_conf = network.resolv_conf()
        # a container's own overlay cannot hold an upper layer: keep it in memory there
        tmpfs = self.record.upper_size_mib is None and not overlay_works_on(self.directory)
        booting = []
        try:
            for node, devices in zip(self.nodes, self._devices, strict=True):
                setup.prepare(node, hosts, resolv_conf, key, tmpfs, devices)
                booting.append((node, node.start_boot()))
        finally:
            for node, process in booting:
                node.finish_boot(process)
        known = [f"{node.hostname},{node.address} {node.host_key}" for node in self.nodes]
        (self.directory / "known_hosts").write_text("".join(known))
        inventory.write_ssh_config(self.directory, addresses)
        self.write_inventory(self.inventory, variables=self._variables)

    def write_inventory(
        self,
        folder: Path,
        *,
        nodes: Sequence[Node] | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write another inventory, of these nodes or of all; returns the folder."""
        return inventory.write_inventory(
            folder,
            self.directory,
            {node.hostname: node.address for node in self.nodes if nodes is None or node in nodes},
            self.record.control_paths,
            variables or {},
        )

    # In between

    def drop_connections(self, nodes: Sequence[Node]) -> None:
        """End the ssh connections that Ansible keeps open: one to a node that died hangs."""
        for node in nodes:
            _drop_connections(self.record.control_paths / node.hostname)

    def heal(self, nodes: Sequence[Node] | None = None) -> dict[str, list[tuple[int, list[str]]]]:
        """Undo every fault of these nodes, or of all, and kill what still runs on them; returns
        what was left running, by host.
        """
        nodes = self.nodes if nodes is None else nodes
        left = {}
        if not wait_for(lambda: not any(n.processes() for n in nodes), LEFTOVER_GRACE_S, 0.05):
            left = {node.hostname: node.processes() for node in nodes if node.processes()}
        for node in nodes:
            node.kill_processes()
        self.revive(nodes)
        return left

    def revive(self, nodes: Sequence[Node] | None = None) -> None:
        """Undo every fault of these nodes, or of all; what runs on them goes on."""
        nodes = self.nodes if nodes is None else nodes
        broken = [node for node in nodes if node.faults()]
        self.drop_connections(broken)
        for node in nodes:
            node.limit_memory(self.record.memory_mib)
            node.free_disk()
        booting = [(node, node.start_boot()) for node in broken if node.pid is None]
        for node, process in booting:
            node.finish_boot(process)
        for node in broken:
            node.link(True)
            node.start_sshd()

    # Down

    def down(self) -> None:
        """Remove the cluster without a trace; does nothing when it is not up."""
        record = registry.load(self.name)
        if record is not None:
            remove(record)
        self._record = None
        self.nodes = []


def remove(record: Record) -> None:
    """Remove all that belongs to a cluster, however far it came and whoever left it."""
    with uninterrupted(), registry.removing(record) as there:
        if not there:
            return
        for folder in record.control_paths.glob("*"):
            _drop_connections(folder)
        kill_and_wait(inits(record.name))
        network.remove(record.name)
        # one that was just starting ends without its network namespace, or is found by now
        kill_and_wait(inits(record.name))
        remove_groups(f"trainbench-{record.name}-")
        directory = record.directory
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            point = line.split()[4]
            if point.startswith(f"{directory}/"):
                run(["umount", "-n", point])
        # one filesystem: were anything of the machine still mounted below, it would stay whole
        run(["rm", "-rf", "--one-file-system", "--", directory], timeout_s=120)
        with registry.locked():
            registry.forget(record)


def sweep(name: str | None = None) -> None:
    """Remove clusters whose owner died, and what is left of ``name`` when no node of it lives."""
    for record in registry.records():
        dead = record.owner is not None and not record.owner_alive
        if dead or (record.name == name and record.owner is None and not inits(record.name)):
            remove(record)


def _drop_connections(folder: Path) -> None:
    with suppress(FileNotFoundError):
        for socket in list(folder.iterdir()):
            run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "node"], check=False)
            socket.unlink(missing_ok=True)
