"""bench on real Slurm, as an ordinary user on a login node: both modes, with a real trainer.

test_faults.py breaks things; the suite `slurm` has what takes longer.
"""

import json
import os
import sys

import pytest

from runner.base.paths import PROJECT
from runner.folder import names
from runner.folder.packed import read_part
from runner.results.arrivals import arrivals_of
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = pytest.mark.cluster


def torch_gpt(slurm: SlurmCluster, name: str, **more: object) -> SlurmBench:
    """A campaign of torch_gpt, whose environment `make setup` left in this checkout."""
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "micro_batch_size": 2},
            **{"global_batch_size": 8, "train_iters": 4, "devices_per_node": 2, "nodes": 2},
        },
        "axes": {"zero_stage": [3]},
        "warmup_iters": 1,
    }
    variables = {"cluster_root": str(PROJECT / ".trainbench"), "slurm_nodes": 4, **more}
    return SlurmBench(slurm, user_folder(slurm, name), matrix, variables)


def test_a_run_is_a_job_of_its_own(slurm_cluster: SlurmCluster) -> None:
    bench = torch_gpt(slurm_cluster, "job")
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (attempt,) = bench.campaign.glob("*/repeat1/attempt1")
    placement = json.loads((attempt / "placement.json").read_text())
    assert placement["host"] == ["node2", "node3"]
    started = json.loads((attempt / "nodes/0001-rank1/started.json").read_text())
    assert {"node2", str(placement["port"])} <= set(started["argv"])
    outcome = json.loads((attempt / "outcome.json").read_text())
    assert (outcome["status"], outcome["queued_s"] >= 0) == ("ok", True)
    collected = bench.slurm.run(
        [sys.executable, "-m", "runner", "collect", "--runs", str(bench.runs), "--format", "json"],
        check=True,
    )
    (row,) = json.loads(collected.stdout)["rows"]
    assert row["status"] == "ok"
    for node in (attempt / "nodes").iterdir():
        there = {*os.listdir(node)} - {"prepared"}  # of a node that noted something
        assert there == {"done.json", "launcher.log", "started.json"}
        assert read_part(node, names.SAMPLES)
        entries = arrivals_of(node).entries  # none of a log in which nothing was written
        assert (entries[-1].size if entries else 0) == (node / names.LOG).stat().st_size
    assert (attempt / "samples.zip").is_file()
    assert not (attempt / "roster").exists()
    assert sorted(path.stem for path in (bench.campaign / "inspect").iterdir()) == [
        "node2",
        "node3",
    ]


def test_runs_are_steps_of_one_allocation(slurm_cluster: SlurmCluster) -> None:
    install_stand_in(slurm_cluster)
    matrix = {
        "name": "steps",
        "defaults": {"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 2, "nodes": 2},
        "axes": {"zero_stage": [0, 1]},
        "warmup_iters": 0,
    }
    bench = SlurmBench(
        slurm_cluster, user_folder(slurm_cluster, "steps"), matrix, {"slurm_mode": "allocation"}
    )
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    jobs = {json.loads(path.read_text())["job_id"] for path in bench.campaign.glob("**/slurm.json")}
    assert len(jobs) == 1
    assert slurm_cluster.run(["squeue", "--noheader"], check=True).stdout == ""
