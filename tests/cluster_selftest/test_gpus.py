"""GPUs of one machine, shared out over test nodes.

The device files are stand-ins with the numbers of /dev/full and its like: no machine that runs the
tests has GPUs. What NVIDIA's libraries make of them, `make gpu-nodes` shows.
"""

import os
import stat
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.system import missing

FULL, NULL = os.stat("/dev/full").st_rdev, os.stat("/dev/null").st_rdev


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """Stand-in for /dev with eleven GPUs, what they share, and what is no device."""
    if missing():
        pytest.skip("device files are root's to make, and test nodes, too")
    for name in (*(f"nvidia{number}" for number in range(11)), "nvidiactl", "nvidia-uvm"):
        number = NULL if name == "nvidiactl" else FULL
        os.mknod(tmp_path / name, 0o600 | stat.S_IFCHR, number)
    (tmp_path / "nvidia-caps").mkdir()
    return tmp_path


@pytest.mark.cluster
def test_a_node_has_its_own_and_makes_no_other(dev: Path) -> None:
    """As root it could make the files of its neighbour's, and NVIDIA's libraries do."""
    with Cluster(2, gpus=dev) as cluster:
        for node, own, other in zip(cluster.nodes, (0, 5), (5, 0), strict=True):
            seen = node.exec(["sh", "-c", "ls /dev/nvidia*"], check=True).stdout.split()
            assert seen == sorted(
                ["/dev/nvidia-uvm", "/dev/nvidiactl", *(f"/dev/nvidia{own + n}" for n in range(5))]
            )
            number = node.ssh(["stat", "--format", "%t:%T", f"/dev/nvidia{own}"]).stdout
            assert number == "1:7\n"  # /dev/full's
            made = node.exec(["mknod", f"/dev/nvidia{other}", "c", "1", "7"])
            assert "Read-only file system" in made.stderr
            assert node.exec(["sh", "-c", "echo x >/dev/shm/x; tty </dev/null"]).returncode == 1
        cluster.nodes[0].reboot()
        assert cluster.nodes[0].exec(["test", "-c", "/dev/nvidia0"]).returncode == 0
