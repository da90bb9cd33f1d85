"""A share of the processors for each node, so that what else the machine does is not measured.

cgroups of version 1, as this machine has them, or 2 (never seen). Nodes do not see the quota.
"""

from contextlib import suppress
from pathlib import Path

from tests.cluster.node import Node
from tests.cluster.processes import table
from tests.cluster.system import wait_for

V1 = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 10_000  # short, so that a quota is a slower processor and not one that comes and goes


class Processors:
    """The cgroup of one node's processes: init and sshd, and with them all that they start."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.v1 = (V1 / "cpu.cfs_quota_us").exists() or (V1 / "cpu.shares").exists()
        name = f"trainbench-{node.record.name}-{node.hostname}"
        self.path = V1 / name if self.v1 else node.memory.path

    def limit(self, share: float) -> None:
        """Let the node have so much of one processor, before everything else on the machine."""
        quota = round(share * PERIOD_US)
        if not self.v1:
            (self.path.parent / "cgroup.subtree_control").write_text("+cpu")
            (self.path / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            (self.path / "cpu.weight").write_text("10000")
            return
        self.path.mkdir(exist_ok=True)
        (self.path / "cpu.cfs_period_us").write_text(f"{PERIOD_US}")
        (self.path / "cpu.cfs_quota_us").write_text(f"{quota}")
        (self.path / "cpu.shares").write_text("262144")
        for process in table(self.node.pid):
            with suppress(OSError):  # it has ended meanwhile
                (self.path / "cgroup.procs").write_text(f"{process.host_pid}")

    def remove(self) -> None:
        """Remove the group, once the node is down."""

        def removed() -> bool:
            with suppress(OSError):
                self.path.rmdir()
            return not self.path.exists()

        if self.v1:
            wait_for(removed, timeout_s=5)
