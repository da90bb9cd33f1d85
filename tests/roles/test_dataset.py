"""roles/dataset on real nodes: made once, the same everywhere, repaired where it broke."""

import json
import sys
from pathlib import Path

import pytest

from tests.cluster import network
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT as REPOSITORY
from tests.roles.play import Ran, play

pytestmark = pytest.mark.cluster
ROOT = "/opt/trainbench-data"
DATA = f"{ROOT}/datasets"
VARIABLES = {
    "cluster_root": ROOT,
    "cluster_systems": [],
    "cluster_devices_per_node": 1,
    "dataset_vocab_size": 1024,
    "dataset_max_bytes": 500_000,
    "dataset_names": ["default", "own"],
    # an environment that is there already; test_bare_node.py has one made
    "dataset_existing_python": sys.executable,
    # what playbooks/group_vars derives, for a playbook that lies elsewhere
    "datasets_root": DATA,
    "systems_root": f"{ROOT}/systems",
}
OWN_BYTES = 40_000_000
# A dataset that somebody put on one node by hand.
MAKE_OWN = """
import hashlib, json, os, sys
files, home = sys.argv[1:3]
sys.path.insert(0, files)
from node.dataset import megatron_mmap
os.makedirs(home)
prefix = os.path.join(home, "own_text_document")
with megatron_mmap.Writer(prefix, "uint16") as writer:
    tokens = list(range(50_000))
    for _ in range(400):
        writer.add_document(tokens)
names = ["own_text_document.bin", "own_text_document.idx"]
blobs = {name: open(os.path.join(home, name), "rb").read() for name in names}
json.dump(
    {
        "prefix": "own_text_document",
        "documents": 400,
        "tokens": 20_000_000,
        "vocab_size": 50_000,
        "bytes": {name: len(blob) for name, blob in blobs.items()},
        "sha256": {name: hashlib.sha256(blob).hexdigest() for name, blob in blobs.items()},
    },
    open(os.path.join(home, "dataset.json"), "w"),
)
"""
ENTRY = """
- hosts: nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: dataset
        tasks_from: {entry}
"""


def data(group: Group, *words: str) -> Ran:
    return play(group.inventory, *words, playbook="data.yml")


def entry(group: Group, folder: Path, name: str) -> Ran:
    path = folder / f"{name}.yml"
    path.write_text(ENTRY.format(entry=name))
    return play(group.inventory, playbook=path)


def through_control_node(group: Group) -> int:
    """Bytes that this machine and the nodes sent each other; node to node is bridged past it."""
    folder = Path("/sys/class/net", network.bridge(group.cluster.name), "statistics")
    return sum(int((folder / f"{way}_bytes").read_text()) for way in ("rx", "tx"))


def sums(group: Group) -> list[str]:
    argv = ["sh", "-c", f"cd {DATA} && find default own -type f | sort | xargs sha256sum"]
    return [node.exec(argv).stdout for node in group.nodes]


def test_made_on_one_node_brought_to_the_others_and_repaired(
    real_nodes: RealNodes, tmp_path: Path
) -> None:
    group = real_nodes(3, variables=VARIABLES)
    checked = data(group, "--check")
    assert checked.rc == 0, checked.out
    assert checked.changed() == dict.fromkeys(checked.recap, 1), checked.out
    assert all(node.exec(["test", "-e", ROOT]).returncode == 1 for node in group.nodes)
    files = str(REPOSITORY)
    make = [sys.executable, "-c", MAKE_OWN, files, f"{DATA}/own"]
    group.nodes[1].exec(make, check=True)

    before = through_control_node(group)
    first = data(group)
    assert first.rc == 0, first.out
    passed = through_control_node(group) - before
    assert len(set(sums(group))) == 1
    manifest = json.loads(group.nodes[2].read(f"{DATA}/default/dataset.json"))
    assert {"encoder.json", "gpt2-merges.txt", "text/AA/wiki_00"} <= set(manifest["sha256"])
    # twice 40 MB went to node1 and node3; Ansible's own modules are what passed here
    assert passed < OWN_BYTES / 5, f"{passed} bytes passed through the control node"

    again = data(group)
    assert again.changed() == {"node1": 0, "node2": 0, "node3": 0}, again.out
    assert max(counts["ok"] for counts in again.recap.values()) <= 3, again.out

    # One node's tokens are cut short: verify names node, file and fault; data repairs just that.
    group.nodes[1].exec(["truncate", "-s", "-10", f"{DATA}/default/default_text_document.bin"])
    verify = entry(group, tmp_path, "verify")
    assert verify.rc != 0
    assert {host: counts["failed"] for host, counts in verify.recap.items()} == {
        "node1": 0,
        "node2": 1,
        "node3": 0,
    }
    assert f"{DATA}/default/default_text_document.bin has " in verify.out
    repaired = data(group)
    assert repaired.rc == 0, repaired.out
    assert repaired.changed() == {"node1": 0, "node2": 1, "node3": 0}, repaired.out
    assert len(set(sums(group))) == 1

    removed = entry(group, tmp_path, "remove")
    assert removed.rc == 0, removed.out
    left = [node.exec(["find", DATA, "-type", "f"]).stdout.split() for node in group.nodes]
    assert [len(files) for files in left] == [0, 3, 0]  # somebody put it on node2, not setup
