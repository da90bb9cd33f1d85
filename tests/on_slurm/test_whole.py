"""The whole flow on real Slurm, as an ordinary user: setup, doctor, bench in both modes, compare.

Minutes, most of them for pip to install torch on the folder that the nodes share.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import Bench
from tests.on_slurm.campaign import SlurmBench, user_folder, with_torch_gpt

pytestmark = [
    pytest.mark.nightly("slurm", by_day="row"),
    pytest.mark.cluster,
    pytest.mark.timeout(1200),
]
CELLS = ("nodes=1", "nodes=2", "nodes=4")


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with with_torch_gpt(4) as cluster:
        yield cluster


def matrix(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "micro_batch_size": 1},
            **{"global_batch_size": 4, "train_iters": 6, "devices_per_node": 1},
        },
        "axes": {"nodes": [1, 2, 4]},
        "warmup_iters": 2,
    }


def losses(bench: Bench) -> dict[str, float]:
    """Final loss of each cell, by its name."""
    argv = ["collect", "--runs", str(bench.runs), "--campaign", bench.campaign.name]
    said = subprocess.run(
        [sys.executable, "-m", "runner", *argv, "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(said.stdout)["rows"]
    assert all(row["status"] == "ok" for row in rows), said.stdout
    return {row["cell"]: row["figures"]["final_loss"] for row in rows}


def test_both_modes_train_as_over_ssh(slurm: SlurmCluster) -> None:
    folder = user_folder(slurm, "whole")
    benches: list[Bench] = []
    for mode in ("job", "allocation"):
        bench = SlurmBench(slurm, folder, matrix(mode), {"slurm_mode": mode, "slurm_nodes": 4})
        ran = bench.run(timeout=400)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        benches.append(bench)
    variables = {
        "cluster_root": str(slurm.shared / "root"),
        "cluster_root_shared": True,
        "cluster_devices_per_node": 2,
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
    }
    inventory = slurm.cluster.write_inventory(
        folder / "ssh", nodes=slurm.cluster.nodes[:4], variables=variables
    )
    over_ssh = Bench(folder, inventory, matrix("ssh"))
    ran = over_ssh.run(timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    job, allocation = map(losses, benches)
    assert job == allocation == losses(over_ssh)
    assert list(job) == list(CELLS)
    compared = slurm.run(
        [sys.executable, "-m", "runner", "compare", *(str(each.campaign) for each in benches)],
        timeout=400,
    )
    assert compared.returncode == 3, compared.stderr  # single runs: none can be told apart
    assert all(cell in compared.stdout for cell in CELLS)


def test_doctor_asks_the_nodes_of_an_allocation(slurm: SlurmCluster) -> None:
    runs = user_folder(slurm, "doctor") / "runs"
    argv = ["doctor", "-i", str(slurm.inventory), "--runs", str(runs), "--format", "json"]
    ran = slurm.run([sys.executable, "-m", "runner", *argv], timeout=400)
    # 2: all nodes share this machine's processors, which may be too noisy to tell.
    assert ran.returncode in (0, 1, 2), ran.stdout + ran.stderr
    said = json.loads(ran.stdout)
    assert {node.hostname for node in slurm.compute} == set(said["nodes"])
    assert "all-reduce between all nodes" in said["text"]
