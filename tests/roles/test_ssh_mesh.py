"""roles/ssh_mesh on real nodes: each reaches each, nobody from outside, repaired where it broke."""

import json
from collections.abc import Iterator

import pytest
import yaml

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

    checked = mesh(group, "--check")
    assert checked.rc == 0, checked.out
    assert first.exec(["ls", "-A", HOME]).stdout == ""
    made = mesh(group, "-vvv", "--diff")
    assert made.rc == 0, made.out
    keys = [node.read(f"{OURS}/id_ed25519") for node in group.nodes]
    assert keys[0] != keys[1]
    for line in "".join(keys).splitlines():
        assert line.startswith("-----") or line not in made.out, "the key was logged"
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

    # A key is good from its node's addresses only.
    write(stranger, f"{HOME}/stolen", keys[1])
    write(stranger, f"{HOME}/known_hosts", f"{first.address} {first.host_key}")
    rc, said = ssh(stranger, "-i", f"{HOME}/stolen", first.address)
    assert rc == 255
    assert "Permission denied" in said
    assert "not from a permitted host" in first.read("/var/log/sshd.log")

    break_and_repair(group)
    take_off(group)


def break_and_repair(group: Group) -> None:
    """Verify names each node and item; setup repairs those and changes nothing else."""
    first, second = group.nodes
    # The second expects a wrong host key of the first, and lets the key in from everywhere.
    right, wrong = (node.host_key.split()[1] for node in group.nodes)
    write(second, f"{OURS}/known_hosts", second.read(f"{OURS}/known_hosts").replace(right, wrong))
    block = second.read(f"{HOME}/authorized_keys")
    write(second, f"{HOME}/authorized_keys", block.replace('from="', 'from="*,'))
    # Somebody else wrote another line with the first's key on the first.
    own = first.read(f"{OURS}/id_ed25519.pub")
    lines = first.read(f"{HOME}/authorized_keys")
    write(first, f"{HOME}/authorized_keys", f"{own}{lines}")

    broken = verify(group)
    assert broken.rc != 0
    for words in (
        "node1: authorized_keys has another line with a key of the mesh, which setup leaves alone",
        "node2: ~/.ssh/trainbench/known_hosts is not as setup wrote it",
        "node2: ~/.ssh/authorized_keys is not as setup wrote it",
        "node2 cannot reach node1 on port 22: Host key verification failed.",
    ):
        assert words in broken.out, broken.out
    mended = mesh(group)
    assert mended.changed() == {"node1": 0, "node2": 1}, mended.out
    assert first.read(f"{HOME}/authorized_keys").startswith(own)
    write(first, f"{HOME}/authorized_keys", lines)
    assert verify(group).rc == 0

    # The first node loses its key, and its host keys where the second has them.
    first.exec(["rm", f"{OURS}/id_ed25519"], check=True)
    second.exec(["rm", f"{OURS}/known_hosts"], check=True)
    broken = verify(group)
    assert f"node1: {OURS}/id_ed25519 is missing" in broken.out.replace("~", "/root"), broken.out
    assert "node1 cannot reach node2 on port 22: " in broken.out
    assert mesh(group).rc == 0
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
    # Nodes have no sudo, and a Python that only root can read.
    method = {"ansible_become_method": "su", "ansible_python_interpreter": "/usr/bin/python3"}
    become = ["-e", json.dumps({**method, "ssh_mesh_user": USER})]
    made = mesh(group, *become)
    assert made.rc == 0, made.out
    ran = group.nodes[0].exec(["runuser", "-u", USER, "--", "ssh", "node2", "id", "-un"])
    assert ran.stdout == f"{USER}\n", ran.stderr
    verified = verify(group, *become)
    assert verified.rc == 0, verified.out


FOREIGN = FOREIGN_KEY.split()[1]
PWNED = "/root/pwned"
# A node's Python, which replaces OLD by NEW in what the programs print that it was given.
LIES = """#!{python}
import subprocess, sys
said = subprocess.run(["{python}", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
print(said.stdout.replace({old!r}, {new!r}), end="")
sys.exit(said.returncode)
"""


def lies(node: Node, python: str, old: str, new: str) -> None:
    """Have a node say what it likes, in the JSON of Ansible's modules, by the Python it has."""
    node.exec(["mkdir", "-p", "/opt/liar"], check=True)
    write(node, "/opt/liar/python3", LIES.format(python=python, old=old, new=new))
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
    assert mesh_of_liars(group, python, "nothing", "nothing").rc == 0
    address, host_key = liar.address, liar.host_key.split()[1]
    own = liar.read(f"{OURS}/id_ed25519.pub").split()[1]
    lines = r"\n" + FOREIGN_KEY + r"\n"
    for old, new in (
        (host_key, rf"{host_key}\n* ssh-ed25519 {FOREIGN}"),
        (host_key, f"{host_key} x,* ssh-ed25519 {FOREIGN}"),
        ('"ssh-ed25519"', f'"* ssh-ed25519 {FOREIGN}"'),
        ('"ssh-ed25519"', r'"@cert-authority * ssh-ed25519"'),
        (own, FOREIGN + lines),
        (own, own + lines),
        (f'["{address}"]', rf'["{address}", "1.1.1.1\" ssh-ed25519 {FOREIGN} x{lines}"]'),
        (f'["{address}"]', rf'["*", "{address}\n", "x\n    ProxyCommand touch {PWNED}"]'),
    ):
        mesh_of_liars(group, python, old, new)
        ours = f"cat {OURS}/*[!9] {HOME}/authorized_keys {HOME}/config"
        written = first.exec(["sh", "-c", ours]).stdout
        for words in (FOREIGN, "ProxyCommand", "cert-authority", "*"):
            assert words not in written, f"{old} as {new}: {written}"
    honest = mesh_of_liars(group, python, "nothing", "nothing")
    assert honest.rc == 0, honest.out
    assert ssh(first, "node2") == (0, "node2")
    # A node without a single key that fits ends it for all.
    refused = mesh_of_liars(group, python, '_public"', '_other"')
    assert refused.rc != 0
    assert "node2 has no public key of its sshd" in " ".join(refused.out.split())
    assert first.exec(["test", "-e", PWNED]).returncode == 1
    liar.exec(["rm", "-r", "/opt/liar"], check=True)


def mesh_of_liars(group: Group, python: str, old: str, new: str) -> Ran:
    lies(group.nodes[1], python, old, new)
    return mesh(group)
