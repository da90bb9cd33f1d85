"""The test nodes themselves: apart from each other, and faulty on demand."""

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import ClusterError, Node
from tests.cluster.fixtures import RealNodes
from tests.cluster.system import base_python, wait_for

pytestmark = pytest.mark.cluster

PORT = 5555
LISTEN = f"""
import socket
with socket.create_server(("", {PORT})) as server:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100).upper())
"""
TALK = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT}), timeout=5) as connection:
    connection.sendall(b"hello")
    print(connection.recv(100).decode())
"""
HOG = "held = [bytearray(1 << 20) for _ in range(400)]; print(len(held))"


def ansible(inventory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("ansible")
    return subprocess.run(
        [str(command), "-i", str(inventory), *words], capture_output=True, text=True, timeout=60
    )


def running(node: Node, word: str) -> bool:
    return any(word in argv for _, argv in node.processes())


def test_ansible_reaches_nodes_and_checks_host_keys(real_nodes: RealNodes) -> None:
    group = real_nodes(2, variables={"greeting": "from group_vars"})
    done = ansible(group.inventory, "nodes", "-m", "debug", "-a", "var=greeting")
    assert done.stdout.count("from group_vars") == 2, done.stdout + done.stderr
    done = ansible(group.inventory, "nodes", "-m", "ping")
    assert done.stdout.count('"ping": "pong"') == 2, done.stdout + done.stderr

    known_hosts = group.cluster.directory / "known_hosts"
    right = known_hosts.read_text()
    first, second = (line.split() for line in right.splitlines()[:2])
    try:  # node1 with node2's key: somebody else answers on node1's address
        known_hosts.write_text(" ".join([first[0], *second[1:]]) + "\n")
        group.cluster.drop_connections()
        for environment in ({}, {"ANSIBLE_HOST_KEY_CHECKING": "False"}):
            with pytest.MonkeyPatch.context() as patch:
                for key, value in environment.items():
                    patch.setenv(key, value)
                # raw sends no module, which could break on the closed pipe before ssh has spoken
                done = ansible(group.inventory, "node1", "-m", "raw", "-a", "true")
            assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stdout + done.stderr
            assert done.returncode == 4
    finally:
        known_hosts.write_text(right)


def test_files_and_modes(real_nodes: RealNodes) -> None:
    directory = real_nodes(2).cluster.directory
    for path, mode in ((directory, 0o700), (directory / "id_ed25519", 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    hosts = (directory / "inventory" / "hosts.yml").read_text()
    assert f"ansible_python_interpreter: {base_python()}\n" in hosts
    assert "shims" not in base_python()


def test_nodes_are_apart(real_nodes: RealNodes) -> None:
    one, two = real_nodes(2).nodes
    for path in ("/etc/only-here", "/tmp/only-here", "/var/tmp/only-here", "/run/only-here",
                 "/dev/shm/only-here", "/root/only here"):  # fmt: skip
        assert one.ssh(["touch", path]).returncode == 0
        assert one.exec(["test", "-e", path]).returncode == 0
        assert two.exec(["test", "-e", path]).returncode == 1
        assert not Path(path).exists()
    assert [node.read("/etc/hostname").strip() for node in (one, two)] == ["node1", "node2"]
    assert [node.ssh(["hostname"]).stdout.strip() for node in (one, two)] == ["node1", "node2"]
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


def test_nodes_reach_each_other(real_nodes: RealNodes) -> None:
    one, two = real_nodes(2).nodes
    with one.popen([base_python(), "-c", LISTEN]):
        port = f"{PORT:04X}"
        assert wait_for(lambda: port in one.read("/proc/net/tcp"), 5)
        talked = two.exec([base_python(), "-c", TALK, "node1"])
        assert talked.stdout == "HELLO\n", talked.stderr
        assert two.exec([base_python(), "-c", TALK, "node1"]).returncode != 0  # it listened once


def test_link_down_and_up(real_nodes: RealNodes) -> None:
    one, two = real_nodes(2).nodes
    connect = f"import socket; socket.create_connection(('{two.address}', 22), 1)"
    reach = [base_python(), "-c", connect]
    assert one.exec(reach).returncode == 0
    two.link(False)
    assert two.faults() == ["link down"]
    assert one.exec(reach).returncode == 1
    assert two.exec(["cat", "/sys/class/net/eth0/carrier"]).stdout == "0\n"
    two.link(True)
    assert one.exec(reach).returncode == 0


def test_sshd_gone_is_not_node_gone(real_nodes: RealNodes) -> None:
    (node,) = real_nodes(1).nodes
    ssh = ["ssh", "-F", str(Path(node.record.directory) / "ssh_config"), node.hostname]
    with subprocess.Popen([*ssh, "echo on; exec sleep 1002"], stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"on\n"
        node.kill_sshd(sessions=False)
        assert node.faults() == ["no sshd"]
        assert node.ssh(["true"]).returncode == 255
        assert session.poll() is None
        node.start_sshd()
        assert node.ssh(["true"]).returncode == 0
        assert session.poll() is None
        node.kill_sshd()
        assert session.wait(timeout=5) == 255
    assert node.exec(["hostname"]).stdout == "node1\n"
    assert running(node, "1002")  # what a session started outlives it
    node.kill_processes()
    assert node.processes() == []


def test_kill_and_boot(real_nodes: RealNodes) -> None:
    one, two = real_nodes(2).nodes
    boot_id = "/proc/sys/kernel/random/boot_id"
    before = two.read(boot_id)
    two.exec(["sh", "-c", "echo kept >/etc/kept; echo lost >/run/lost"], check=True)
    ssh = ["ssh", "-F", str(Path(two.record.directory) / "ssh_config"), two.hostname]
    with subprocess.Popen([*ssh, "echo on; exec sleep 1003"], stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        session.stdout.readline()
        two.kill()
        assert two.faults() == ["down"]
        with pytest.raises(ClusterError, match="node2 is down"):
            two.exec(["true"])
        time.sleep(0.5)
        assert session.poll() is None  # a dead machine does not say goodbye
        session.kill()
    assert one.ssh(["true"]).returncode == 0
    two.boot()
    assert two.faults() == []
    assert two.ssh(["cat", "/etc/kept"]).stdout == "kept\n"
    assert two.exec(["test", "-e", "/run/lost"]).returncode == 1
    assert two.read(boot_id) != before
    two.reboot()
    assert two.ssh(["hostname"]).stdout == "node2\n"


def test_a_test_that_leaves_faults_is_healed(real_nodes: RealNodes) -> None:
    group = real_nodes(4)
    one, two, three, four = group.nodes
    one.link(False)
    two.kill()
    three.kill_sshd()
    four.exec(["sh", "-c", "setsid sleep 1004 >/dev/null 2>&1 &"], check=True)
    left = group.cluster.heal()
    assert [argv for _, argv in left["node4"]] == [["sleep", "1004"]]
    assert [node.faults() for node in group.nodes] == [[], [], [], []]
    assert all(node.ssh(["true"]).returncode == 0 for node in group.nodes)
    assert group.cluster.heal() == {}


def test_disk_full(real_nodes: RealNodes) -> None:
    (node,) = real_nodes(1, upper_size_mib=64).nodes
    node.fill_disk()
    for path in ("/root/big", "/tmp/big"):
        done = node.exec(["dd", "if=/dev/zero", f"of={path}", "bs=1M", "count=1"])
        assert "No space left on device" in done.stderr
    assert node.ssh(["true"]).returncode == 0
    node.kill_sshd()
    node.start_sshd()
    node.reboot()  # a full disk is full after a reboot too
    assert node.faults() == ["disk filled"]
    node.free_disk()
    node.exec(["dd", "if=/dev/zero", "of=/root/big", "bs=1M", "count=8"], check=True)


def test_a_plain_disk_is_not_filled(real_nodes: RealNodes) -> None:
    with pytest.raises(ClusterError, match="upper_size_mib"):
        real_nodes(1).nodes[0].fill_disk()


def test_memory_limit_kills(real_nodes: RealNodes) -> None:
    (node,) = real_nodes(1).nodes
    hog = ["sh", "-c", '"$@"; exit $?', "sh", base_python(), "-c", HOG]
    assert node.exec(hog).stdout == "400\n"
    node.limit_memory(200)
    assert node.exec(hog).returncode == 137
    node.kill_sshd()  # sessions over ssh are in the group as well
    node.start_sshd()
    assert node.ssh(hog).returncode == 137
    node.limit_memory(None)
    assert node.ssh(hog).stdout == "400\n"


@pytest.mark.network
def test_installing_in_one_node_shows_nowhere_else(real_nodes: RealNodes) -> None:
    group = real_nodes(2)
    one, two = group.nodes
    if group.cluster.no_internet:
        pytest.skip(f"nodes have no internet: {group.cluster.no_internet}")
    if one.exec(["which", "apt-get"]).returncode != 0:
        pytest.skip("this machine has no apt-get")
    candidates = [name for name in ("hello", "sl", "cowsay", "tree") if not _has(one, name)]
    install = ["apt-get", "install", "-qy", "--no-install-recommends", candidates[0]]
    done = one.exec(install, timeout=60)
    if done.returncode != 0:
        pytest.skip(f"no package index: {done.stderr.strip()[-200:]}")
    assert _has(one, candidates[0])
    assert not _has(two, candidates[0])
    assert not Path("/var/lib/dpkg/info", f"{candidates[0]}.list").exists()


def _has(node: Node, package: str) -> bool:
    return node.exec(["dpkg", "-s", package]).returncode == 0
