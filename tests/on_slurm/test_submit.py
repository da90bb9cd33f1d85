"""`bench --submit`: runs stay in the queue, `status` says where they are, bench gathers them."""

import json
import signal
from typing import Any

import pytest

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]


def bench_of(slurm: SlurmCluster, name: str, step_s: float, **variables: object) -> SlurmBench:
    install_stand_in(slurm)
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 5, "nodes": 2},
            **{"global_batch_size": 16, "env": {"STEP_S": str(step_s)}},
        },
        "axes": {"seed": [1, 2, 3]},
        "warmup_iters": 0,
        "time_limit_s": 480,
    }
    return SlurmBench(slurm, user_folder(slurm, name), matrix, variables)


def status_of(bench: SlurmBench) -> dict[str, Any]:
    words = ["python", "-m", "runner", "status", "--runs", str(bench.runs), "--format", "json"]
    return dict(json.loads(bench.slurm.run(words, check=True).stdout))


def test_runs_are_left_in_the_queue_and_gathered(slurm_cluster: SlurmCluster) -> None:
    """Three jobs of two nodes on four: the third waits. Every process of the login is then gone."""
    bench = bench_of(slurm_cluster, "leave", 2.0)
    ran = bench.run("--submit")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 runs in the queue; you may log out" in ran.stderr
    for pid, argv in slurm_cluster.login.processes():  # as where the login node is rebooted
        if str(bench.runs) in argv:
            slurm_cluster.login.signal(pid, signal.SIGKILL)
    found = status_of(bench)
    assert (found["live"], found["ended"]) == (False, {})
    assert len(found["runs_now"]) + len(found["queued"]) == 3, found
    assert all(one["job_id"] for one in found["queued"])
    again = bench.run("--submit")  # submits none twice
    assert again.returncode == 0, again.stderr
    assert len(list(bench.campaign.glob(names.ATTEMPTS))) == 3
    wait(lambda: status_of(bench)["ended"] == {"ok": 3}, 400, "the end of all runs")
    gathered = bench.run()
    assert gathered.returncode == 0, gathered.stdout + gathered.stderr
    outcomes = [json.loads(path.read_text()) for path in bench.campaign.rglob(names.OUTCOME)]
    assert [each["status"] for each in outcomes] == ["ok"] * 3
    assert all(7 < each["wall_s"] < 40 for each in outcomes), outcomes
    assert len(list(bench.campaign.glob(names.ATTEMPTS))) == 3


def test_no_more_jobs_are_left_than_may_be(slurm_cluster: SlurmCluster) -> None:
    bench = bench_of(slurm_cluster, "most", 0.2, slurm_most_jobs=2)
    ran = bench.run("--submit")
    assert "2 runs in the queue" in ran.stderr
    wait(lambda: status_of(bench)["ended"] == {"ok": 2}, 400, "the end of both")
    last = bench.run()
    assert last.returncode == 0, last.stderr
    assert len(list(bench.campaign.rglob(names.OUTCOME))) == 3


def test_an_allocation_cannot_be_left(slurm_cluster: SlurmCluster) -> None:
    bench = bench_of(slurm_cluster, "alloc", 0.1, slurm_mode="allocation")
    ran = bench.run("--submit")
    assert ran.returncode == 2
    assert "--submit leaves jobs in a queue" in ran.stderr
    assert not bench.campaign.exists()
