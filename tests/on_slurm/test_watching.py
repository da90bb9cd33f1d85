"""Several jobs of one campaign on real Slurm, as they are watched: what runs, waits and has ended.

Two runs of two nodes go on side by side, a third waits for their nodes.
"""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]

NODES = {"node2", "node3", "node4", "node5"}


def three_jobs(slurm: SlurmCluster, name: str, step_s: float) -> SlurmBench:
    install_stand_in(slurm)
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 50, "nodes": 2},
            "env": {"STEP_S": str(step_s)},
        },
        "axes": {"zero_stage": [0, 1, 2]},
        "warmup_iters": 0,
    }
    return SlurmBench(slurm, user_folder(slurm, name), matrix)


def told(bench: SlurmBench, *command: str) -> str:
    argv = [sys.executable, "-m", "runner", *command, "--runs", str(bench.runs)]
    said: subprocess.CompletedProcess[str] = bench.slurm.run(argv, check=True)
    return said.stdout


def status(bench: SlurmBench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(bench, "status", "--format", "json"))
    return found


def until_two_run(bench: SlurmBench) -> dict[str, Any]:
    """Wait until two go on and one waits, and say what status says."""
    seen: list[dict[str, Any]] = []

    def there() -> bool:
        if len(list(bench.campaign.glob("*/*/*/placement.json"))) < 2:
            return False
        seen.append(status(bench))
        (waits,) = seen[-1]["queued"] or [{}]
        return (waits.get("reason"), waits.get("position")) == ("Resources", 1)

    wait(there, 90, "two jobs that run and one that waits")
    return seen[-1]


def test_status_tells_what_runs_on_which_nodes_and_what_waits_for_what(
    slurm_cluster: SlurmCluster,
) -> None:
    bench = three_jobs(slurm_cluster, "watched", 0.5)
    bench.start()
    found = until_two_run(bench)
    words = told(bench, "status")
    code, said = bench.finish()
    print(words, said)  # for a person who runs this alone, with -s
    assert code == 0, said
    first, second = (set(one["hosts"]) for one in found["runs_now"])
    assert (len(first), first | second) == (2, NODES)
    (waits,) = found["queued"]
    assert (waits["state"], waits["position"]) == ("PENDING", 1)
    assert f"job {waits['job_id']}: zero_stage=2: queued, 1st, Resources" in words
    assert "2 running; 1 waiting, first [3/3] zero_stage=2: queued" in said
    rows = json.loads(told(bench, "collect", "--format", "json"))["rows"]
    codes = [row["verdict"].split(";") for row in rows]
    assert ["side_by_side" in each for each in codes] == [True, True, False]
    assert "other_nodes" in codes[0]
    (last,) = bench.campaign.glob("zero_stage=2*/repeat1/attempt1/outcome.json")
    outcome = json.loads(last.read_text())
    assert outcome["queued_s"] > 10 > outcome["wall_s"] - 25


def test_ctrl_c_ends_what_runs_and_what_waits_and_the_next_bench_makes_them_again(
    slurm_cluster: SlurmCluster,
) -> None:
    bench = three_jobs(slurm_cluster, "stopped", 5)
    bench.start()
    until_two_run(bench)
    bench.signal(signal.SIGINT)
    code, said = bench.finish()
    assert code == 130, said
    ended = [json.loads(path.read_text()) for path in bench.campaign.glob("*/*/*/outcome.json")]
    assert [each["cause"] for each in ended] == ["interrupted"] * 3
    assert slurm_cluster.run(["squeue", "--noheader"], check=True).stdout == ""


def test_a_killed_bench_is_followed_by_the_next_which_submits_nothing(
    slurm_cluster: SlurmCluster,
) -> None:
    bench = three_jobs(slurm_cluster, "killed", 0.3)
    bench.start()
    until_two_run(bench)
    bench.signal(signal.SIGKILL)
    bench.finish()
    away = status(bench)
    assert (away["live"], len(away["runs_now"]), len(away["queued"])) == (False, 2, 1)
    before = {path: path.read_text() for path in bench.campaign.glob("*/*/*/slurm.json")}
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    after = {path: path.read_text() for path in bench.campaign.glob("*/*/*/slurm.json")}
    assert before == after
    assert len(list(bench.campaign.glob("*/*/*/outcome.json"))) == 3
