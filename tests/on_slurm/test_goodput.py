"""A run continues after failures on real Slurm: a rank, a node's part, a node without power, and a
requeued job.

The trainer is tests/resuming_trainer.py.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.cluster.system import base_python
from tests.on_nodes.campaign import wait
from tests.on_nodes.goodput import TRAINER, defaults
from tests.on_slurm.campaign import SlurmBench, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]


def campaign(slurm: SlurmCluster, name: str, *cells: dict[str, Any], **more: Any) -> SlurmBench:
    folder = user_folder(slurm, name)
    trainer = folder / "trainer" / TRAINER.name  # git would not tell this user of our checkout
    trainer.parent.mkdir()
    shutil.copy(TRAINER, trainer)
    given = defaults(nodes=2, env={"STEP_S": "0.1"})
    given["argv"][:2] = [base_python(), str(trainer)]
    given["cwd"] = str(trainer.parent)
    matrix = {
        "name": name,
        "defaults": given,
        "include": list(cells),
        "warmup_iters": 2,
        "time_limit_s": 200,
    }
    variables = {"cluster_scratch": "", "slurm_nodes": 4, **more}
    return SlurmBench(slurm, folder, matrix, variables)


def spent(row: dict[str, Any]) -> dict[str, Any]:
    """Return what failures cost a cell."""
    wanted = ("goodput", "recovery")
    return {key: value for key, value in row["figures"].items() if key.startswith(wanted)}


def rows(bench: SlurmBench) -> list[dict[str, Any]]:
    argv = [
        sys.executable,
        "-m",
        "runner",
        "collect",
        "--runs",
        str(bench.runs),
        "--format",
        "json",
    ]
    found: list[dict[str, Any]] = json.loads(bench.slurm.run(argv, check=True).stdout)["rows"]
    return found


def state(slurm: SlurmCluster, number: int) -> str:
    return str(slurm.run(["squeue", "--noheader", "-o", "%T", "-j", str(number)]).stdout)


def resumed(bench: SlurmBench) -> list[int]:
    """Where each attempt went on, by the logs."""
    logs = sorted(bench.campaign.glob("*/repeat1/attempt*/nodes/0000-*/launcher.log"))
    found = [re.search(r"torch_gpt resumed step=(\d+)", log.read_text()) for log in logs]
    return [int(match[1]) for match in found if match]


def test_a_new_job_goes_on_from_the_last_one_s_checkpoint(slurm_cluster: SlurmCluster) -> None:
    bench = campaign(
        slurm_cluster,
        "goodput",
        {"faults": "none", "axes": {"fault": "none"}},
        {"faults": "kill_rank:1@25", "axes": {"fault": "rank"}},
        {"faults": "kill_node:1@25", "axes": {"fault": "node"}},
    )
    ran = bench.run(timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    whole, rank, node = rows(bench)
    assert {row["status"] for row in (whole, rank, node)} == {"ok"}
    assert (rank["figures"]["faults"], node["figures"]["faults"]) == (1, 1)
    assert len({row["figures"]["final_loss"] for row in (whole, rank, node)}) == 1
    assert rank["figures"]["recovery_running_s"] > 0
    assert sorted(resumed(bench)) == [0, 0, 0, 20, 20]
    assert not list(Path(slurm_cluster.shared).rglob("step-000020.json"))  # it ended well
    print([spent(row) for row in (rank, node)])


def test_a_requeued_job_goes_on_where_it_was(slurm_cluster: SlurmCluster) -> None:
    bench = campaign(slurm_cluster, "requeue", {"recovery": "requeue"}, slurm_requeue=True)
    bench.start()
    bench.wait_for_step(25)
    (attempt,) = bench.campaign.glob("*/repeat1/attempt1")
    number = json.loads((attempt / "slurm.json").read_text())["job_id"]
    slurm_cluster.slurm("scontrol", "requeue", str(number))
    wait(lambda: "PENDING" in state(slurm_cluster, number), 400, "the job in its queue again")
    slurm_cluster.slurm("scontrol", "update", f"jobid={number}", "StartTime=now")
    code, said = bench.finish(timeout=300)
    assert code == 0, said
    assert resumed(bench) == [0, 20]
    (row,) = rows(bench)
    assert row["status"] == "ok"
    assert row["figures"]["goodput_percent"] > 0


def test_a_run_continues_after_a_node_lost_its_power(slurm_cluster: SlurmCluster) -> None:
    bench = campaign(slurm_cluster, "power", {"recovery": "restart"})
    bench.start()
    bench.wait_for_step(25)
    (attempt,) = bench.campaign.glob("*/repeat1/attempt1")
    number = json.loads((attempt / "slurm.json").read_text())["job_id"]
    (hosts,) = slurm_cluster.slurm("squeue", "-h", "-o", "%N", "-j", str(number)).split()
    name = slurm_cluster.slurm("scontrol", "show", "hostnames", hosts).split()[-1]
    (lost,) = [node for node in slurm_cluster.compute if node.hostname == name]
    slurm_cluster.node_down(lost)
    code, said = bench.finish(timeout=300)
    assert code == 0, said
    assert resumed(bench) == [0, 20]
    (row,) = rows(bench)
    assert row["status"] == "ok"
    print(spent(row))
    # Nobody knows the second in which the power went.
    assert 0 < row["figures"]["goodput_percent"] < 100
    # Node rank 0's guard waits up to half a minute for the lost one to end.
    others = [node for node in slurm_cluster.compute if node is not lost]
    wait(lambda: not any(node.processes() for node in others), 400, "the end of all processes")
