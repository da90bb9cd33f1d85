"""Which clusters this machine has: one small file each, and what to put back after the last."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .network import IP_FORWARD, NETNS
from .system import Identity, identity, run

# Under /run: gone with a reboot, as the clusters are.
HOME = Path("/run/trainbench-clusters")
CHECKOUT = str(Path(__file__).resolve().parents[2])


@dataclass
class Record:
    """What is known about a cluster; enough to remove it."""

    name: str
    directory: str
    subnet: int
    nodes: int
    upper_size_mib: int | None
    memory_mib: int | None
    # The process that starts the cluster, or uses it through the Python API; None once `up` left
    # it standing by itself.  A cluster whose owner is dead is a leftover.
    owner: Identity | None
    no_internet: str | None = None  # why, or None
    checkout: str = ""  # whose tests brought it up

    @property
    def shared(self) -> Path:
        """The folder that the nodes share with each other and with this machine."""
        return Path(self.directory) / "shared"

    @property
    def slurm_conf(self) -> Path:
        """Slurm's configuration as it came up, where the cluster has Slurm."""
        return Path(self.directory) / "slurm.conf"

    @property
    def owner_alive(self) -> bool:
        """Whether the owner still runs."""
        return self.owner is not None and identity(self.owner.pid) == self.owner

    @property
    def control_paths(self) -> Path:
        """Where ssh keeps its control sockets, a folder a node: a socket's path has 108 bytes."""
        return HOME / f"{self.name}.cp"


def _file(name: str) -> Path:
    return HOME / f"{name}.json"


@contextmanager
def locked() -> Iterator[None]:
    """Hold the registry; its folder goes with the last cluster, and what a killed tool left."""
    while True:
        with suppress(FileExistsError):
            HOME.mkdir(mode=0o700)
        try:
            folder = os.open(HOME, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(folder, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(HOME), os.fstat(folder)):
                break
        os.close(folder)  # another process removed the folder while we waited
    try:
        yield
    finally:
        if not records() and not _file("before").exists():
            shutil.rmtree(HOME, ignore_errors=True)
        os.close(folder)


def save(record: Record) -> None:
    """Write the record, whole or not at all."""
    new = _file(record.name).with_suffix(".new")
    new.write_text(json.dumps(asdict(record)))
    new.rename(_file(record.name))


def load(name: str) -> Record | None:
    """The cluster's record, or None."""
    try:
        fields: dict[str, Any] = json.loads(_file(name).read_text())
    except FileNotFoundError:
        return None
    if fields["owner"] is not None:
        fields["owner"] = Identity(*fields["owner"])
    return Record(**fields)


def records() -> list[Record]:
    """All clusters, by name."""
    names = sorted(path.stem for path in HOME.glob("*.json") if path.stem != "before")
    return [record for record in map(load, names) if record is not None]


def machine_before() -> dict[str, Any]:
    """What clusters change of this machine, as it was before the first of those that are up."""
    try:
        before: dict[str, Any] = json.loads(_file("before").read_text())
    except FileNotFoundError:
        before = {"ip_forward": IP_FORWARD.read_text(), "netns": NETNS.exists()}
    return before


@contextmanager
def removing(record: Record) -> Iterator[bool]:
    """Remove a cluster alone: who comes second waits, and finds that it is there no more."""
    try:
        file = _file(record.name).open()
    except FileNotFoundError:
        yield False
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield _file(record.name).exists()


def remember_machine() -> None:
    """Before the first cluster: keep what the clusters will change.  Hold the lock."""
    if not _file("before").exists():
        _file("before").write_text(json.dumps(machine_before()))


def forget(record: Record) -> None:
    """Remove the record, and after the last one put the machine's settings back.  Hold the lock."""
    shutil.rmtree(record.control_paths, ignore_errors=True)
    _file(record.name).unlink(missing_ok=True)
    _file(record.name).with_suffix(".new").unlink(missing_ok=True)
    if records() or not _file("before").exists():
        return
    before = machine_before()
    if IP_FORWARD.read_text() != before["ip_forward"]:
        IP_FORWARD.write_text(before["ip_forward"])
    if not before["netns"] and NETNS.is_dir() and not any(NETNS.iterdir()):
        run(["umount", "-n", str(NETNS)], check=False)  # `ip netns add` mounts the folder on itself
        with suppress(OSError):
            NETNS.rmdir()
    _file("before").unlink()
