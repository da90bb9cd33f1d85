"""What machines answer becomes an inventory that Ansible and the runner read, or a refusal."""

from pathlib import Path

import pytest
import yaml

from runner.base.errors import UserError
from runner.enrol.host_list import Machine, from_words
from runner.enrol.probe_answer import Found, read_answer
from runner.enrol.ssh_probe import Way
from runner.enrol.writing import CLUSTER, HOSTS, Preference, files, scalar
from runner.inventory.inventory import load_inventory

ANSWER = """\
Welcome to gpu01.
TRAINBENCH user=train
TRAINBENCH python=/usr/bin/python3 3.10
TRAINBENCH python=/opt/py/bin/python3 3.12
TRAINBENCH gpu=81559
TRAINBENCH gpu=81559
TRAINBENCH root=/home/train/trainbench
TRAINBENCH disk=ext2/ext3
TRAINBENCH writable=yes
TRAINBENCH route=ens3
"""
TWO = from_words(["gpu01=10.0.0.11,gpu02=10.0.0.12"])
WAY, ANY = Way(), Preference()


def found(answer: str = ANSWER, machines: tuple[Machine, ...] = TWO) -> dict[str, Found]:
    return {machine.name: read_answer(machine.name, answer) for machine in machines}


def test_two_machines_become_a_cluster_that_the_runner_reads(tmp_path: Path) -> None:
    way = Way(user="train", key="/home/my keys/id", port=2222, config="/home/me/ssh config")
    for path, text in files(TWO, found(), way, ANY).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    cluster = load_inventory(tmp_path)
    assert cluster.addresses == {"gpu01": "10.0.0.11", "gpu02": "10.0.0.12"}
    assert (cluster.device, cluster.device_memory_mib) == ("cuda", 81559)
    assert {node.devices for node in cluster.nodes} == {2}
    assert {str(node.root) for node in cluster.nodes} == {"/home/train/trainbench"}
    assert cluster.env == {"GLOO_SOCKET_IFNAME": "ens3", "NCCL_SOCKET_IFNAME": "=ens3"}
    shared = yaml.safe_load((tmp_path / HOSTS).read_text())["nodes"]["vars"]
    assert shared["ansible_ssh_private_key_file"] == "/home/my keys/id"
    assert shared["ansible_ssh_common_args"] == "-F '/home/me/ssh config'"
    assert (shared["ansible_port"], shared["ansible_user"]) == (2222, "train")


HOSTILE = "{{ lookup('pipe', 'touch /tmp/owned') }}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in ("user", "root", "route", "gpu", "npus", "python", "disk", "nameless")
        for value in (HOSTILE, "/x{%raw%}", '"\x1b[2J', "a: &a [b]", "!!python/object:x", "9" * 999)
    ],
)
def test_nothing_that_a_machine_answers_is_more_than_a_word(key: str, value: str) -> None:
    lines = [line for line in ANSWER.splitlines() if f" {key}=" not in line]
    answer = "\n".join([*lines, f"TRAINBENCH {key}={value}"])
    with pytest.raises(UserError) as refused:
        read_answer("gpu01", answer)
    said = str(refused.value)
    assert said.startswith(f"gpu01 answers {value[:80]!a} for its {key}")
    assert said.isprintable()


def test_no_template_comes_from_whoever_asks_either() -> None:
    with pytest.raises(UserError, match=r"hosts.yml would hold a template"):
        files(TWO, found(), Way(key="/home/{{ x }}"), ANY)


@pytest.mark.parametrize(
    "text", ["yes", "null", "1e3", "0x10", "1_0", "10.5", "a b", "#x", "x: y", "-", ""]
)
def test_text_stays_text(text: str) -> None:
    assert yaml.safe_load(scalar(text)) == text


def test_machines_that_differ() -> None:
    both = found()
    old = read_answer("gpu02", ANSWER.replace("train/trainbench", "x/trainbench"))
    with pytest.raises(UserError, match=r"the root folder differs: gpu01 has /home/.* --root$"):
        files(TWO, {**both, "gpu02": old}, WAY, ANY)
    bare = read_answer("gpu02", ANSWER.replace("gpu=", "was="))
    assert "cluster_device: cpu" in files(TWO, {**both, "gpu02": bare}, WAY, ANY)[CLUSTER]
    with pytest.raises(UserError, match=r"^gpu02 has no device that nvidia-smi shows"):
        files(TWO, {**both, "gpu02": bare}, WAY, Preference(device="cuda"))
    small = ANSWER.replace("gpu=81559\n", "gpu=40960\n", 1).replace("python3 3", "python3.9 3")
    one = read_answer("gpu02", small)
    made = files(TWO, {**both, "gpu02": one}, WAY, ANY)
    assert "cluster_device_memory_mib: 40960" in made[CLUSTER]
    assert made[HOSTS].count("ansible_python_interpreter") == 2
    for word in ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]"):  # unified memory, a driver
        unified = read_answer("gpu02", ANSWER.replace("gpu=81559\n", f"gpu={word}\n", 1))
        said = files(TWO, {**both, "gpu02": unified}, WAY, ANY)[CLUSTER]
        assert "cluster_device: cuda" in said
        assert "cluster_device_memory_mib" not in said
    other = read_answer("gpu02", ANSWER.replace("ens3", "eth0"))
    env = yaml.safe_load(files(TWO, {**both, "gpu02": other}, WAY, ANY)[CLUSTER])["cluster_env"]
    assert env == {"NCCL_SOCKET_IFNAME": "=ens3,eth0"}


def test_a_root_that_all_share_is_said() -> None:
    shared = found(ANSWER.replace("ext2/ext3", "nfs"))
    assert "cluster_root_shared: true" in files(TWO, shared, WAY, ANY)[CLUSTER]


@pytest.mark.parametrize(
    ("pythons", "words"),
    [([], "gpu01 has no python3"), (["/usr/bin/python3 3.6"], "has /usr/bin/python3 3.6; install")],
)
def test_a_machine_without_a_python_that_ansible_can_use(pythons: list[str], words: str) -> None:
    lines = [line for line in ANSWER.splitlines() if " python=" not in line]
    lines += [f"TRAINBENCH python={one}" for one in pythons]
    with pytest.raises(UserError, match=words):
        read_answer("gpu01", "\n".join(lines))
