"""A memory cgroup for each node, version 1 or 2, whichever this machine has."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .system import ClusterError, wait_for

MIB = 1 << 20


class Hierarchy(NamedTuple):
    """Where memory cgroups live."""

    kind: str  # "v1", "v2", or "" for none that can be written
    root: Path


def memory_hierarchy() -> Hierarchy:
    """Find the mounted hierarchy that controls memory."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4])
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup" and "memory" in options.split()[-1].split(","):
            return Hierarchy("v1", point)
        if kind == "cgroup2" and "memory" in (point / "cgroup.controllers").read_text().split():
            return Hierarchy("v2", point)
    return Hierarchy("", Path("/"))


class MemoryGroup:
    """The memory cgroup of one node; does nothing where there is none."""

    def __init__(self, name: str) -> None:
        self.kind, root = memory_hierarchy()
        # at the root of the hierarchy: a folder below our own would go with the calling job
        self.path = root / name

    @property
    def procs(self) -> str:
        """The file to write a pid into, or '' without cgroups."""
        return str(self.path / "cgroup.procs") if self.kind else ""

    def create(self) -> None:
        """Make the group; on a machine where that is refused, go on without one."""
        if not self.kind:
            return
        try:
            if self.kind == "v2":
                (self.path.parent / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir(exist_ok=True)
        except OSError:
            self.kind = ""

    def limit(self, mib: int | None) -> None:
        """Limit the node's memory (page cache and tmpfs pages included) in MiB; None: no limit.

        Raises ClusterError without a writable memory cgroup, or when more is in use already.
        """
        if not self.kind or not self.path.is_dir():
            if mib is None:
                return
            raise ClusterError("this machine has no memory cgroup that can be written")
        if self.kind == "v1":
            file, value = "memory.limit_in_bytes", "-1" if mib is None else str(mib * MIB)
        else:
            file, value = "memory.max", "max" if mib is None else str(mib * MIB)
        try:
            (self.path / file).write_text(value)
        except OSError as error:
            raise ClusterError(f"cannot limit memory to {mib} MiB: {error.strerror}") from None

    def remove_children(self) -> None:
        """Remove what the node itself made below its group."""
        if self.kind and self.path.is_dir():
            _remove_below(self.path)


def remove_groups(prefix: str) -> None:
    """Remove the groups whose name begins so, once their processes are gone."""
    kind, root = memory_hierarchy()
    for path in sorted(root.glob(f"{prefix}*")) if kind else []:

        def removed(path: Path = path) -> bool:
            _remove_below(path)
            with suppress(OSError):
                path.rmdir()
            return not path.exists()

        wait_for(removed, timeout_s=2)


def _remove_below(path: Path) -> None:
    for child in path.iterdir():
        if child.is_dir():
            _remove_below(child)
            with suppress(OSError):
                child.rmdir()
