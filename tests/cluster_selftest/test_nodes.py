"""The test nodes themselves: apart from each other, and whole again after a test."""

from pathlib import Path

import pytest

from tests.cluster import Node
from tests.cluster.fixtures import RealNodes
from tests.cluster.system import wait_for

pytestmark = pytest.mark.cluster


def running(node: Node, word: str) -> bool:
    return any(word in argv for _, argv in node.processes())


def test_nodes_are_apart(real_nodes: RealNodes) -> None:
    one, two = real_nodes(2).nodes
    for path in ("/etc/only-here", "/tmp/only-here", "/var/tmp/only-here", "/run/only-here",
                 "/dev/shm/only-here", "/root/only here"):  # fmt: skip
        assert one.ssh(["touch", path]).returncode == 0
        assert one.exec(["test", "-e", path]).returncode == 0
        assert two.exec(["test", "-e", path]).returncode == 1
        assert not Path(path).exists()
    for node in (one, two):
        assert node.read("/etc/hostname") == node.ssh(["hostname"]).stdout == f"{node.hostname}\n"
    with one.popen(["sleep", "1001"]) as sleeping:
        assert wait_for(lambda: running(one, "1001"), 5)
        seen = one.exec(["ps", "-eo", "args"]).stdout
        assert "sleep 1001" in seen
        assert "tb-" not in seen.replace(one.label, "")
        assert "sleep 1001" not in two.exec(["ps", "-eo", "args"]).stdout
        sleeping.kill()
    assert wait_for(lambda: not one.processes(), 5)
    for name in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        assert one.read(name) != two.read(name)
    # the machine's settings are not the node's to change, nor its keys to see
    assert one.exec(["sysctl", "-w", "vm.swappiness=1"]).returncode != 0
    assert one.exec(["ls", one.record.directory]).stdout == "shared\n"


def test_a_test_that_leaves_faults_is_healed(real_nodes: RealNodes) -> None:
    group = real_nodes(4)
    one, two, three, four = group.nodes
    one.link(False)
    two.kill()
    three.kill_sshd()
    four.exec(["sh", "-c", "setsid sleep 1004 >/dev/null 2>&1 &"], check=True)
    left = group.cluster.heal(group.nodes)
    assert [argv for _, argv in left["node4"]] == [["sleep", "1004"]]
    assert [node.faults() for node in group.nodes] == [[], [], [], []]
    assert all(node.ssh(["true"]).returncode == 0 for node in group.nodes)
    assert group.cluster.heal(group.nodes) == {}
