"""doctor on real Slurm: the nodes of an allocation, as an ordinary user on the login node."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import chown, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]


def doctor(slurm: SlurmCluster, folder: Path, *within: str, **variables: Any) -> tuple[int, Any]:
    """Its exit code, and what it says as JSON of what the nodes are."""
    inventory = slurm.write_inventory(folder / "slurm", {"slurm_nodes": 3, **variables})
    chown(folder)
    words = ["doctor", "-i", str(inventory), "--runs", str(folder / "runs"), "--only", "env"]
    ran = slurm.run([*within, sys.executable, "-m", "runner", *words, "--format", "json"])
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def test_an_odd_node_is_a_line_for_the_inventory(slurm_cluster: SlurmCluster) -> None:
    odd = slurm_cluster.compute[1]
    odd.exec(["ip", "link", "set", "eth0", "mtu", "1300"], check=True)
    try:
        code, found = doctor(
            slurm_cluster, user_folder(slurm_cluster, "odd"), slurm_exclude="node5"
        )
    finally:
        odd.exec(["ip", "link", "set", "eth0", "mtu", "1400"], check=True)
    assert (code, found["nodes"]) == (1, ["node2", "node3", "node4"])
    assert found["slurm_exclude"] == "node5,node3"
    assert "odd or slow: slurm_exclude: node5,node3\n" in found["text"]
    queue = slurm_cluster.run(["squeue", "--noheader"], check=True)
    assert queue.stdout == ""


def test_within_an_allocation_its_nodes_are_asked(slurm_cluster: SlurmCluster) -> None:
    within = ("salloc", "--quiet", "--nodes=2", "--nodelist=node[4-5]")
    code, found = doctor(slurm_cluster, user_folder(slurm_cluster, "within"), *within)
    assert (code, found["nodes"]) == (0, ["node4", "node5"])
