"""accept on real nodes: a planted fault is named, and nodes of switches are compared.

tests/acceptance plants all kinds, and kills one in each stage; here stands what takes seconds.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.acceptance.bed import VARIABLES
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT

pytestmark = pytest.mark.cluster


@pytest.fixture
def group(real_nodes: RealNodes) -> Group:
    """Four nodes that see this checkout's .trainbench (made by `make setup`) as their root."""
    if not (ROOT / ".trainbench/datasets").is_dir():
        pytest.fail("this machine is not set up: run `make setup` first", pytrace=False)
    return real_nodes(4, variables=VARIABLES)


def argv(group: Group, runs: Path, *stages: str) -> list[str]:
    words = [word for stage in stages for word in ("--stage", stage)]
    command = [sys.executable, "-m", "runner", "accept", "-i", str(group.inventory)]
    return [*command, "--runs", str(runs), "--quick", *words]


def test_the_node_with_another_mtu_is_named(tmp_path: Path, group: Group) -> None:
    link = group.nodes[2].exec(["ip", "-j", "link", "show", "eth0"], check=True).stdout
    group.nodes[2].exec(["ip", "link", "set", "eth0", "mtu", "1280"], check=True)
    try:
        ran = subprocess.run(
            argv(group, tmp_path, "alike"), capture_output=True, text=True, timeout=500
        )
    finally:
        mtu = str(json.loads(link)[0]["mtu"])
        group.nodes[2].exec(["ip", "link", "set", "eth0", "mtu", mtu], check=True)
    assert ran.returncode == 1, ran.stderr
    assert "fault: node3: MTU is 1280" in ran.stdout
    (folder,) = tmp_path.glob(".accept/*/1")
    assert (folder / "failing.txt").read_text() == "node3\n"
    assert (folder / "healthy.txt").read_text() == "node1\nnode2\nnode4\n"


@pytest.mark.nightly("nodes")
def test_the_nodes_of_two_switches_are_compared(tmp_path: Path, group: Group) -> None:
    hosts = group.inventory / "hosts.yml"
    content = yaml.safe_load(hosts.read_text())
    nodes = content["all"]["children"]["nodes"]["hosts"]
    for number, name in enumerate(nodes):
        nodes[name] = {**(nodes[name] or {}), "cluster_switch": f"leaf{number % 2}"}
    hosts.write_text(yaml.safe_dump(content))
    words = [*argv(group, tmp_path, "links"), *("--format", "json")]
    for test in ("pair", "all_gather", "all_to_all", "send_receive"):
        words += ["--leave-out", test]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=500)
    (links,) = json.loads(ran.stdout)["detail"]["stages"]
    (row,) = [row for row in links["tests"] if row["test"] == "switch"]
    measured = sorted(figure["nodes"] for figure in row["figures"])
    assert measured == [["node1", "node3"], ["node2", "node4"]], ran.stdout
