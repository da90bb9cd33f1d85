"""A node that reaches nothing but this machine gets its packages from a prefetched folder alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import RealNodes
from tests.roles.apt_repository import Vendor
from tests.roles.play import play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("setup", by_day="minutes"),
]
VARIABLES: dict[str, Any] = {
    "cluster_root": "/opt/trainbench-alone",
    "cluster_systems": [],
    "cluster_device": "cuda",
    "cluster_devices_per_node": 1,
    "base_time_sync": False,  # chrony would set this machine's clock
    "cuda_versions": ["11.3"],
    "cuda_libraries": ["libnccl2=2.9.9-1+cuda11.3"],
}
BARE = ["numactl", "rdma-core", "ibverbs-utils"]  # of the role base, from the real Debian
TAGS = ["--tags", "base,gpu"]


@pytest.mark.timeout(1800)  # 270 packages, downloaded, brought and installed
def test_packages_come_from_the_folder(
    tmp_path: Path, real_nodes: RealNodes, vendor: Vendor
) -> None:
    group = real_nodes(1, variables=VARIABLES, upper_size_mib=3000)
    node = group.nodes[0]
    folder = tmp_path / "prefetch"

    def lacks(name: str) -> bool:
        status = str(node.exec(["dpkg-query", "-W", "-f", "${Status}", name]).stdout)
        return not status.endswith(" ok installed")  # a held one is `hold ok installed`

    node.exec(["apt-get", "purge", "-y", *BARE], check=True)
    before = node.exec(["sh", "-c", "find /etc/apt /var/lib/apt /tmp | sort"]).stdout
    with vendor.served(group) as site:
        words = ["-e", json.dumps({**site, "prefetch_dir": str(folder)})]
        filled = play(group.inventory, *words, playbook="prefetch.yml", timeout=900)
        assert filled.rc == 0, filled.out
        again = play(group.inventory, *words, playbook="prefetch.yml", timeout=900)
        assert again.changed() == {"node1": 0}, again.out
    assert all(lacks(name) for name in BARE), "prefetch installed something"
    after = node.exec(["sh", "-c", "find /etc/apt /var/lib/apt /tmp | sort"]).stdout
    assert after == before
    assert list(folder.glob("apt/*/numactl_*.deb"))
    assert list(folder.glob("apt/*/cuda-nvcc-11-3_*.deb"))

    node.exec(["ip", "route", "del", "default"], check=True)
    assert node.exec(["ip", "route", "get", "192.0.2.1"]).returncode != 0, "it is not cut off"
    # Lists that the machine has of old would not help either.
    node.exec(["sh", "-c", "rm -rf /var/lib/apt/lists/*"], check=True)

    words = ["-e", f"site_prefetched={folder}"]
    made = play(group.inventory, *words, *TAGS, timeout=900)
    assert made.rc == 0, made.out
    assert not any(lacks(name) for name in [*BARE, "libnccl2", "cuda-toolkit-11-3"])
    assert "libnccl2" in node.exec(["apt-mark", "showhold"]).stdout
    assert node.exec(["sh", "-c", "ls /etc/apt/sources.list.d"]).stdout.count("trainbench") == 0
    assert play(group.inventory, *words, *TAGS, timeout=900).changed() == {"node1": 0}

    # What goes missing comes back from there, and what is damaged there is refused.
    node.exec(["apt-get", "purge", "-y", "numactl"], check=True)
    deb = next(folder.glob("apt/*/numactl_*.deb")).name
    place = f"/opt/trainbench-alone/prefetched/apt/{next(folder.glob('apt/*')).name}"
    node.exec(["sh", "-c", f"printf x | dd of={place}/{deb} conv=notrunc"], check=True)
    named = ["-e", f"site_apt_folder={place}"]
    refused = play(group.inventory, *named, *TAGS)
    assert refused.rc != 0
    assert lacks("numactl"), refused.out
    mended = play(group.inventory, *words, *TAGS, timeout=900)
    assert mended.rc == 0, mended.out
    assert not lacks("numactl")
