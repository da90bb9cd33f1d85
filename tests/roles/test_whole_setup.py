"""setup.yml as inventory/vs has it on three bare nodes: checked, made, broken, repaired, gone.

tests/roles/vs.py says what a test node allows of that; the vendor's repositories are ours.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.roles import vs
from tests.roles.apt_repository import Vendor
from tests.roles.bare import left_of_us, packages
from tests.roles.play import Ran, play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("setup", by_day="minutes"),
    pytest.mark.timeout(3000),  # torch comes to three nodes at a time, and CUDA's packages twice
]
# What a run that changes nothing may have of the 55 tasks: each further system of inventory/vs adds
# SYSTEM_TASKS. The mesh has eleven, since each is one of Ansible's modules and no program of ours.
MOST_TASKS = 43
SYSTEM_TASKS = 6
SYSTEM = f"{vs.ROOT_FOLDER}/systems/torch_gpt/torch-2.13"
DATA = f"{vs.ROOT_FOLDER}/datasets/default/default_text_document.bin"
LIMITS = "/etc/security/limits.d/90-trainbench.conf"
# One thing of each kind: a package, a file, a service, what no package has, a version, a source, a
# key, data.
BREAK = {
    "base": f"apt-get purge -qy numactl && echo '# mine' >>{LIMITS}",
    "nvidia_driver": "service nvidia-fabricmanager stop",
    "cuda": "sed -i 's/release 11.3/release 11.4/' /usr/local/cuda-11.3/bin/nvcc",
    "container_runtime": "echo '{\"debug\": true}' >/etc/docker/daemon.json",
    "torch_gpt": f"{SYSTEM}/env/bin/python3 -m pip install -q --no-deps numpy==2.4.4 && "
    f"echo '# mine' >>{SYSTEM}/src/train.py",
    "ssh_mesh": "sed -i s/AAAAC3/AAAAC4/ /root/.ssh/trainbench/known_hosts",
    "dataset": f"truncate -s -10 {DATA}",
}
NAMED = {
    "base": ("package numactl: not installed", f"file {LIMITS}: differs from what setup writes"),
    "nvidia_driver": ("service nvidia-fabricmanager: stopped",),
    "cuda": ("nvcc of CUDA 11.3",),
    "container_runtime": ("file /etc/docker/daemon.json: differs from what setup writes",),
    "torch_gpt": ("numpy", "train.py"),
    "ssh_mesh": ("~/.ssh/trainbench/known_hosts is not as setup wrote it",),
    "dataset": (f"{DATA} has",),
}


def files(node: Node) -> str:
    """Every file that setup may touch, with its size and when it was changed."""
    places = "/etc /root/.ssh /usr/local /var/lib/trainbench"
    script = f"find {places} {vs.ROOT_FOLDER} -printf '%p %s %T@\\n' 2>/dev/null | sort"
    return str(node.exec(["sh", "-c", script]).stdout)


@contextmanager
def put_back(group: Group) -> Iterator[None]:
    """Take down what a test that failed midway left on the nodes, which others use, too."""
    try:
        yield
    finally:
        if any(left_of_us(node) for node in group.nodes):
            play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml", timeout=900)
        for node in group.nodes:
            node.exec(["rm", "-rf", vs.ROOT_FOLDER], check=True)


def setup(group: Group, folder: Path, *words: str) -> Ran:
    ran = play(group.inventory, "-e", f"verify_out_dir={folder}", *words, timeout=1500)
    print(ran.out[ran.out.find("PLAY RECAP") :])
    assert ran.rc == 0, ran.out
    return ran


def verify(group: Group, folder: Path) -> Ran:
    ran = play(group.inventory, "-e", f"verify_out_dir={folder}", playbook="verify.yml")
    print(ran.out[ran.out.find("PLAY RECAP") :])
    return ran


def test_bare_nodes_are_set_up_break_are_repaired_and_are_bare_again(
    tmp_path: Path, real_nodes: RealNodes, vendor: Vendor
) -> None:
    group = real_nodes(3)
    with put_back(group), vendor.served(group) as served:
        group.cluster.write_inventory(
            group.inventory, nodes=group.nodes, variables=vs.variables(served)
        )
        before = [packages(node) for node in group.nodes]
        lies = [files(node) for node in group.nodes]
        setup(group, tmp_path, "--check")
        assert [packages(node) for node in group.nodes] == before
        assert [files(node) for node in group.nodes] == lies

        made = setup(group, tmp_path)
        assert "no difference" in made.out
        again = setup(group, tmp_path)
        assert again.changed() == {"node1": 0, "node2": 0, "node3": 0}
        assert max(counts["ok"] for counts in again.recap.values()) <= MOST_TASKS
        assert MOST_TASKS + (vs.SYSTEMS - 1) * SYSTEM_TASKS <= 55

        broken = group.nodes[1]
        for script in BREAK.values():
            broken.exec(["sh", "-c", script], check=True, capture_output=True)
        found = verify(group, tmp_path)
        assert found.rc != 0
        failed = {host: counts["failed"] for host, counts in found.recap.items()}
        assert failed == {"node1": 0, "node2": 1, "node3": 0}, found.out
        said = " ".join(found.out[found.out.find("Compare the nodes") :].split())
        for role, items in NAMED.items():
            assert f"node2: {role}: " in said, said
            assert all(item in said for item in items), (role, said)

        mended = setup(group, tmp_path)
        assert mended.changed()["node2"] >= len(BREAK)
        assert {mended.changed()[name] for name in ("node1", "node3")} == {0}, mended.out
        assert json.loads(broken.read("/etc/docker/daemon.json"))["debug"] is True
        assert verify(group, tmp_path).rc == 0

        gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml", timeout=900)
        assert gone.rc == 0, gone.out
        assert [packages(node) for node in group.nodes] == before
        assert [left_of_us(node) for node in group.nodes] == ["", "", ""]
        for node in group.nodes:
            left = node.exec(["find", vs.ROOT_FOLDER, "-type", "f"]).stdout.split()
            assert [path for path in left if not path.endswith("/env.json")] == []
