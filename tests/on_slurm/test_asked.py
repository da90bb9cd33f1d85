"""What users meet on Slurm: srun's words, nodes that are drained, GPUs asked for in all."""

import json
import subprocess
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]

ALLOCATION = {"slurm_mode": "allocation", "slurm_nodes": 2}


def bench_of(slurm: SlurmCluster, name: str, **variables: Any) -> SlurmBench:
    install_stand_in(slurm)
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 4, "nodes": 2},
            "env": {"STEP_S": "0.1"},
        },
        "warmup_iters": 0,
        "time_limit_s": 480,
    }
    return SlurmBench(slurm, user_folder(slurm, name), matrix, variables)


def test_a_step_that_srun_refuses_says_why(slurm_cluster: SlurmCluster) -> None:
    """srun lists pmix, and cannot load it here."""
    bench = bench_of(slurm_cluster, "mpi", slurm_mpi="pmix", **ALLOCATION)
    ran = bench.run()
    assert ran.returncode == 1, ran.stderr
    outcome = bench.outcome("")
    assert (outcome["status"], outcome["cause"]) == ("did_not_run", "launch_error")
    assert "srun: error: Invalid MPI type 'pmix'" in outcome["reason"]


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_a_drained_partition_is_waited_for(slurm_cluster: SlurmCluster, mode: str) -> None:
    bench = bench_of(slurm_cluster, f"drained-{mode}", **{**ALLOCATION, "slurm_mode": mode})

    def all_nodes(state: str) -> None:
        words = ["scontrol", "update", f"nodename={slurm_cluster.compute[0].hostname[:-1]}[2-5]"]
        more = ["reason=maintenance"] if state == "drain" else []
        slurm_cluster.login.exec([*words, f"state={state}", *more], check=True)

    all_nodes("drain")
    try:
        bench.start()
        waits = ("ReqNodeNotAvail", "DRAINED")
        wait(lambda: any(why in "".join(queue(slurm_cluster)) for why in waits), 400, "a job")
    finally:
        all_nodes("resume")
    code, said = bench.finish()
    assert code == 0, said
    assert "are down or drained" in said
    assert bench.outcome("")["status"] == "ok"


def queue(slurm: SlurmCluster) -> list[str]:
    argv = ["squeue", "--noheader", "--format=%i %T %r"]
    done: subprocess.CompletedProcess[str] = slurm.run(argv, check=True)
    return done.stdout.splitlines()


def test_what_no_node_has_is_still_refused_at_once(slurm_cluster: SlurmCluster) -> None:
    for number, more in enumerate(({"slurm_gpus_per_node": 200}, {"slurm_cpus_per_task": 5000})):
        bench = bench_of(slurm_cluster, f"none{number}", **more)
        ran = bench.run()
        assert ran.returncode == 2, ran.stderr
        assert "Slurm would not take the job of cell" in ran.stderr
        assert not queue(slurm_cluster)


def test_gpus_that_were_asked_for_in_all_come_to_each_node(slurm_cluster: SlurmCluster) -> None:
    bench = bench_of(slurm_cluster, "total", cluster_device="cuda", **ALLOCATION)
    within = ["salloc", "--quiet", "--nodes=2", "--gpus=4"]
    argv = super(SlurmBench, bench).argv()
    ran = slurm_cluster.run([*within, *argv], timeout=400)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    ended = [json.loads(path.read_text()) for path in bench.campaign.rglob("done.json")]
    assert ended
    # Test nodes have no nvidia-smi; a node that got one GPU would have said that before.
    assert all("nvidia-smi" in each["message"] for each in ended), ended
