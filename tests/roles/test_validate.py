"""roles/validate on real nodes: one sentence with a cure, and nothing was touched."""

from collections.abc import Iterator

import pytest

from tests.cluster.fixtures import Group, RealNodes
from tests.roles.play import Ran, play

pytestmark = pytest.mark.cluster
USER = "tb-plain"
# The test cluster's own key, which sshd reads as the user.
TAKES_THE_KEY = f"install -D -o {USER} /etc/ssh/authorized_keys ~{USER}/.ssh/authorized_keys"
VARIABLES = {
    "cluster_root": "/opt/trainbench-validate",
    "cluster_systems": [],
    "cluster_devices_per_node": 1,
}


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    """Two nodes, with a user who may not become root."""
    group = real_nodes(2, variables=VARIABLES)
    for node in group.nodes:
        node.exec(["useradd", "--create-home", "--password", "*", USER], check=True)
        node.exec(["sh", "-c", TAKES_THE_KEY], check=True)
    yield group
    for node in group.nodes:
        node.exec(["userdel", "--remove", "--force", USER])


def validate(group: Group, *words: str) -> Ran:
    return play(group.inventory, *words, playbook="validate.yml")


def test_few_tasks_and_each_refusal_with_its_cure(group: Group) -> None:
    fine = validate(group)
    assert fine.rc == 0, fine.out
    # Two, and five for tokens where nodes' roots look alike, as those of test nodes do.
    assert all(counts["ok"] <= 7 and not counts["changed"] for counts in fine.recap.values())

    silent = validate(group, "-e", "ansible_port=9")
    first, second = (node.hostname for node in group.nodes)
    address = group.nodes[1].address
    assert f"{second} ({address}) cannot be reached: ssh: connect to host {address}" in silent.out
    assert "Connection refused; see that it is on" in silent.out
    assert all(not counts["unreachable"] for counts in silent.recap.values())

    # The nodes' usual Python may lie in a folder of root's.
    words = ["-e", f"ansible_user={USER}", "-e", "ansible_python_interpreter=/usr/bin/python3"]
    no_root = validate(group, *words)
    assert f"setup needs root on {first}, and {USER} may not sudo" in no_root.out
    no_root = validate(group, *words, "-e", "setup_privileged=false")
    assert f"{USER} may not write to /opt/trainbench-validate on {first}" in no_root.out
    home = f"cluster_root=/home/{USER}/tb"
    alone = validate(group, *words, "-e", "setup_privileged=false", "-e", home)
    assert alone.rc == 0, alone.out

    # A dataset that nobody describes may be a folder on any node.
    names = ["-e", '{"dataset_names": ["defualt", "own"]}']
    lies = f"{VARIABLES['cluster_root']}/datasets"
    folder = f"mkdir -p {lies}/own && touch {lies}/own/dataset.json"
    group.nodes[1].exec(["sh", "-c", folder], check=True)
    nowhere = validate(group, *names)
    group.nodes[1].exec(["rm", "-r", str(VARIABLES["cluster_root"])], check=True)
    assert nowhere.rc != 0
    assert "dataset_names has defualt (did you mean 'default'?), which neither" in nowhere.out
    assert "has own" not in nowhere.out

    # What setup brings has room, which is known for what was measured.
    small = "mkdir -p /mnt/small && mount -t tmpfs -o size=200m small /mnt/small"
    group.nodes[1].exec(["sh", "-c", small], check=True)
    words = ["-e", '{"cluster_systems": ["torch_gpt"]}', "-e", "cluster_root=/mnt/small/tb"]
    full = validate(group, *words)
    group.nodes[1].exec(["umount", "/mnt/small"], check=True)
    assert f"{second} has 200.0 MiB free on the disk of /mnt/small/tb, and setup brings" in full.out
    assert f"{first} has" not in full.out

    # Nobody installs a compiler without root.
    old = ["-e", '{"cluster_systems": ["megatron_deepspeed"], "cluster_device": "cuda"}']
    old += ["-e", "base_gcc_version=5", "-e", "setup_privileged=false"]
    words_of = (
        "has no gcc-5 with g++-5, which is to build apex for megatron_deepspeed's oneflow2022"
    )
    compiler = validate(group, *old)
    assert all(f"{host} {words_of}" in compiler.out for host in (first, second)), compiler.out

    other = validate(group, "-e", "ansible_python_interpreter=/opt/none/python3")
    assert f"{first} has no Python at /opt/none/python3; install python3" in other.out


def test_one_bad_node_stops_setup_for_all_before_anything_is_touched(group: Group) -> None:
    text = "ID=ubuntu\nVERSION_ID=16.04\nPRETTY_NAME=old\n"
    node, path = group.nodes[1], "/etc/os-release"
    node.exec(["rm", path], check=True)  # a link to the system's own
    node.exec(["sh", "-c", f"cat >{path}"], input=text, check=True)
    try:
        refused = play(group.inventory)
    finally:
        node.exec(["ln", "-sf", "../usr/lib/os-release", path], check=True)
    assert refused.rc != 0
    assert (
        f"{node.hostname} is old, where packages cannot be managed; supported are Ubuntu 20.04"
        in refused.out
    )
    assert "Put the inventory's systems" not in refused.out
    for node in group.nodes:
        assert node.exec(["test", "-e", "/opt/trainbench-validate"]).returncode == 1
