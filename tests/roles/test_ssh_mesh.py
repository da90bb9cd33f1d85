"""roles/ssh_mesh on real nodes: each reaches each, nobody from outside, repaired where it broke."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from node.answer import SIGN
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.roles.play import Ran, play

pytestmark = pytest.mark.cluster
VARIABLES = {
    "cluster_root": "/opt/trainbench-mesh",
    "cluster_systems": [],
    "cluster_devices_per_node": 1,
    "ssh_mesh_enabled": True,
    "ssh_mesh_ports": [22, 2222],
}
USER = "tb-trainee"
HOME = "/root/.ssh"
OURS = f"{HOME}/trainbench"
FOREIGN_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIForeignForeignForeign someone"
FOREIGN_CONFIG = "Host elsewhere\n    HostName 192.0.2.1"  # ends without a newline

REMOVE = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: ssh_mesh
        tasks_from: remove
"""


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    """Two nodes of the mesh, and a third that is no part of it; nothing is left on them."""
    real_nodes(3)
    group = real_nodes(2, variables=VARIABLES)
    yield group
    for node in group.cluster.nodes[:3]:
        node.exec(["sh", "-c", f"rm -rf {HOME} && mkdir -m 700 {HOME}"], check=True)
        node.exec(["userdel", "--remove", "--force", USER])


def mesh(group: Group, *words: str) -> Ran:
    return play(group.inventory, *words, playbook="ssh.yml")


def verify(group: Group, *words: str) -> Ran:
    only = ["-e", '{"verify_only": ["ssh_mesh"]}']
    return play(group.inventory, *only, *words, playbook="verify.yml")


def write(node: Node, path: str, text: str) -> None:
    node.exec(["sh", "-c", 'cat >"$0" && chmod 600 "$0"', path], input=text, check=True)


def ssh(node: Node, *words: str) -> tuple[int, str]:
    done = node.exec(["ssh", "-o", "BatchMode=yes", *words, "hostname"])
    return done.returncode, (done.stdout + done.stderr).strip()


def test_every_node_reaches_every_node_and_setup_repairs_what_breaks(group: Group) -> None:
    first, second = group.nodes
    stranger = group.cluster.nodes[2]
    write(second, f"{HOME}/authorized_keys", FOREIGN_KEY)
    write(second, f"{HOME}/config", FOREIGN_CONFIG)

    made = mesh(group, "-vvv", "--diff")
    assert made.rc == 0, made.out
    private = first.read(f"{OURS}/id_ed25519")
    assert private == second.read(f"{OURS}/id_ed25519")
    assert not [line for line in private.splitlines() if line in made.out], "the key was logged"
    again = mesh(group)
    assert again.changed() == {"node1": 0, "node2": 0}, again.out

    # By name and by address, to the other and to itself; other hosts are nobody's business.
    for node in group.nodes:
        for to in group.nodes:
            assert ssh(node, to.hostname) == (0, to.hostname)
            assert ssh(node, to.address) == (0, to.hostname)
    assert second.read(f"{HOME}/authorized_keys").startswith(FOREIGN_KEY + "\n")
    assert second.read(f"{HOME}/config").endswith(FOREIGN_CONFIG)
    modes = first.exec(["stat", "-c", "%a", OURS, f"{OURS}/id_ed25519", f"{HOME}/authorized_keys"])
    assert modes.stdout.split() == ["700", "600", "600"]

    # A container's sshd on the second port, with the node's host keys, is known too.
    other = second.popen(["/usr/sbin/sshd", "-D", "-p", "2222", "-o", "PidFile=none"])
    for _ in range(100):
        if ssh(first, "-p", "2222", "node2") == (0, "node2"):
            break
    else:
        pytest.fail("no answer on port 2222")
    verified = verify(group)
    assert verified.rc == 0, verified.out
    other.kill()
    other.wait()

    # The key is good from the cluster's addresses only.
    write(stranger, f"{HOME}/stolen", private)
    write(stranger, f"{HOME}/known_hosts", f"{first.address} {first.host_key}")
    rc, said = ssh(stranger, "-i", f"{HOME}/stolen", first.address)
    assert rc == 255
    assert "Permission denied" in said
    assert "not from a permitted host" in first.read("/var/log/sshd.log")

    break_and_repair(group, private)
    take_off(group)


def break_and_repair(group: Group, private: str) -> None:
    """Verify names each node and item; setup repairs those and changes nothing else."""
    first, second = group.nodes
    # The first node loses its key: the cluster's own comes back from the second.
    first.exec(["rm", f"{OURS}/id_ed25519"], check=True)
    # It lets the key in from everywhere.
    opened = first.read(f"{HOME}/authorized_keys").replace('from="', 'from="*,')
    write(first, f"{HOME}/authorized_keys", opened)
    # The second expects a wrong host key of the first.
    right, wrong = (node.host_key.split()[1] for node in group.nodes)
    write(second, f"{OURS}/known_hosts", second.read(f"{OURS}/known_hosts").replace(right, wrong))

    broken = verify(group)
    assert broken.rc != 0
    for words in (
        f"node1: {OURS}/id_ed25519 is missing",
        "node1 cannot reach node2: ",
        "authorized_keys of node1 lacks the mesh's line",
        "authorized_keys of node1 has another line with the mesh's key",
        "node2 cannot reach node1: Host key verification failed.",
    ):
        assert words in broken.out, broken.out
    mended = mesh(group)
    assert mended.changed() == {"node1": 2, "node2": 1}, mended.out
    assert first.read(f"{OURS}/id_ed25519") == private
    assert second.read(f"{HOME}/authorized_keys").startswith(FOREIGN_KEY + "\n")
    assert verify(group).rc == 0
    checked = mesh(group, "--check")
    assert checked.changed() == {"node1": 0, "node2": 0}, checked.out


def take_off(group: Group) -> None:
    """What is ours goes, foreign lines stay, and once is enough."""
    second = group.nodes[1]
    playbook = group.inventory.parent / "remove.yml"
    playbook.write_text(REMOVE)
    for changed in (2, 0):
        removed = play(group.inventory, playbook=playbook)
        assert removed.changed() == {"node1": changed, "node2": changed}, removed.out
        assert second.read(f"{HOME}/authorized_keys") == FOREIGN_KEY + "\n"
        assert second.read(f"{HOME}/config") == FOREIGN_CONFIG
        left = second.exec(["ls", "-A", HOME]).stdout.split()
        assert left == ["authorized_keys", "config"]


@pytest.mark.nightly("setup")
def test_a_mesh_with_holes_is_refused_before_anything_begins(group: Group) -> None:
    refused = mesh(group, "--limit", "node1")
    assert refused.rc != 0
    assert "node2 did not answer" in " ".join(refused.out.split())
    assert group.nodes[0].exec(["ls", "-A", HOME]).stdout == ""


@pytest.mark.nightly("setup")
def test_another_user_than_the_connecting_one(group: Group) -> None:
    for node in group.nodes:
        # "*": no password, and not locked, which sshd would refuse
        node.exec(["useradd", "--create-home", "--password", "*", USER], check=True)
    made = mesh(group, "-e", f"ssh_mesh_user={USER}")
    assert made.rc == 0, made.out
    ran = group.nodes[0].exec(["runuser", "-u", USER, "--", "ssh", "node2", "id", "-un"])
    assert ran.stdout == f"{USER}\n", ran.stderr
    verified = verify(group, "-e", f"ssh_mesh_user={USER}")
    assert verified.rc == 0, verified.out


FOREIGN = FOREIGN_KEY.split()[1]
PWNED = "/root/pwned"
LIES = """#!/bin/sh
case "$*" in *mesh:look*) cat >/dev/null; cat /opt/liar/answer; exit 0;; esac
exec {python} "$@"
"""


def lies(node: Node, python: str, **fields: Any) -> None:
    """Have a node answer what it likes to `mesh:look`, by the Python that is told of it."""
    answer = {
        **{"user": "root", "group": 0, "place": OURS, "marked": [], "home": "/root", "key": ""},
        **{"name": node.hostname, "hostname": node.hostname, "folders": False, "trust": {}},
        **{"addresses": [node.address], "from": [node.address]},
        **{"host_keys": [" ".join(node.host_key.split()[:2])]},
    }
    node.exec(["mkdir", "-p", "/opt/liar"], check=True)
    write(node, "/opt/liar/answer", SIGN + json.dumps({**answer, **fields}) + "\n")
    write(node, "/opt/liar/python3", LIES.format(python=python))
    node.exec(["chmod", "700", "/opt/liar/python3"], check=True)


def test_what_a_node_says_of_itself_is_no_configuration_of_the_others(group: Group) -> None:
    """Issue 12, point 2: addresses brought a ProxyCommand, host keys `*`, `from` a foreign line."""
    first, liar = group.nodes
    inventory = yaml.safe_load((group.inventory / "hosts.yml").read_text())
    python = inventory["all"]["children"]["nodes"]["vars"]["ansible_python_interpreter"]
    (group.inventory / "host_vars").mkdir()
    (group.inventory / "host_vars" / f"{liar.hostname}.yml").write_text(
        "ansible_python_interpreter: /opt/liar/python3\n"
    )
    proxy = f"x\n    ProxyCommand touch {PWNED}"
    address, host_key = liar.address, " ".join(liar.host_key.split()[:2])
    believed: list[dict[str, Any]] = [
        {"host_keys": [f"{host_key}\n* ssh-ed25519 {FOREIGN}"]},
        {"host_keys": [f"* ssh-ed25519 {FOREIGN}"]},
        {"key": f"ssh-ed25519 {FOREIGN}\n{FOREIGN_KEY}"},
        {"place": f"/x\n    ProxyCommand touch {PWNED}"},
    ]
    for fields in believed:
        lies(liar, python, **fields)
        refused = mesh(group)
        assert refused.rc != 0, refused.out
        assert first.exec(["ls", "-A", HOME]).stdout == "", f"{fields}: {refused.out}"
    # These are not asked for at all: the inventory has them.
    lies(
        liar,
        python,
        **{"addresses": [address, proxy], "name": proxy, "hostname": proxy},
        **{"from": [address, f'1.1.1.1" ssh-ed25519 {FOREIGN} x\n{FOREIGN_KEY}']},
    )
    made = mesh(group)
    assert made.rc == 0, made.out
    written = first.exec(["sh", "-c", f"cat {OURS}/* {HOME}/authorized_keys {HOME}/config"]).stdout
    assert FOREIGN not in written
    assert "ProxyCommand" not in written
    assert ssh(first, "node2") == (0, "node2")
    assert first.exec(["test", "-e", PWNED]).returncode == 1
    liar.exec(["rm", "-r", "/opt/liar"], check=True)
