"""`launcher: srun` on real Slurm: a task for each process, ranks of Slurm's, and how they end."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, user_folder
from tests.on_slurm.test_whole import losses

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]

RANKS = "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK"
SLURMS = "$SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS"
SAY = f'echo "at {RANKS} | {SLURMS} | $MASTER_ADDR:$MASTER_PORT $PMI_RANK"; '
STEPS = "for s in 1 2 3; do echo step $s; done; "


def campaign(
    slurm: SlurmCluster, name: str, script: str, **variables: Any
) -> tuple[SlurmBench, Path]:
    """Two nodes with two tasks each, which run a script of bash."""
    folder = user_folder(slurm, name)
    matrix = {
        "name": name,
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 2, "cwd": str(folder)},
            **{"argv": ["bash", "-c", script], "log": {"step": r"step (\d+)"}},
            "launcher": "srun",
        },
    }
    return SlurmBench(slurm, folder, matrix, variables), folder


def test_a_task_for_each_rank_trains_as_torchrun_does(slurm_cluster: SlurmCluster) -> None:
    """Two ranks on each of two nodes, and the same losses; with the torch of `make setup`."""
    matrix = {
        "name": "launchers",
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "micro_batch_size": 1},
            **{"global_batch_size": 4, "train_iters": 6, "devices_per_node": 2, "nodes": 2},
        },
        "axes": {"launcher": ["torchrun", "srun"]},
        "warmup_iters": 2,
    }
    variables = {"cluster_root": str(PROJECT / ".trainbench"), "slurm_nodes": 4}
    bench = SlurmBench(slurm_cluster, user_folder(slurm_cluster, "launchers"), matrix, variables)
    ran = bench.run(timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    by_launcher = losses(bench)
    assert list(by_launcher) == ["launcher=torchrun", "launcher=srun"]
    assert len(set(by_launcher.values())) == 1, by_launcher


def ended(bench: SlurmBench) -> dict[str, Any]:
    (file,) = bench.campaign.glob(f"{names.ATTEMPTS}/{names.OUTCOME}")
    content: dict[str, Any] = json.loads(file.read_text())
    return content


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_each_task_is_a_rank(slurm_cluster: SlurmCluster, mode: str) -> None:
    variables = {"slurm_mode": mode, "slurm_mpi": "pmi2", "slurm_cpus_per_task": 4}
    variables["slurm_setup"] = ["export TOLD=yes"]
    script = STEPS + SAY + "echo told $TOLD"
    bench, _ = campaign(slurm_cluster, f"ranks-{mode}", script, **variables)
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = bench.campaign.glob(names.ATTEMPTS)
    placement = json.loads((run / names.PLACEMENT).read_text())
    place = f"{placement['host'][0]}:{placement['port']}"
    for node in (0, 1):
        (log,) = run.glob(f"nodes/000{node}-*/{names.LOG}")
        lines = log.read_text().splitlines()
        for local in (0, 1):
            rank = 2 * node + local
            assert f"at {rank} {local} 4 2 {node} | {rank} {local} 4 | {place} {rank}" in lines
        assert lines.count("told yes") == 2


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_the_first_rank_that_fails_ends_the_run(slurm_cluster: SlurmCluster, rank: int) -> None:
    script = STEPS + f"[ $RANK != {rank} ] || exit 7; sleep 300"
    bench, _ = campaign(slurm_cluster, f"fails-{rank}", script)
    ran = bench.run()
    assert ran.returncode == 1, ran.stdout + ran.stderr
    outcome = ended(bench)
    assert (outcome["status"], outcome["cause"]) == ("failed", "exit"), outcome
    assert "the launcher ended with exit code 7" in outcome["reason"]
    assert not [argv for node in slurm_cluster.compute for _, argv in node.processes()]


@pytest.mark.parametrize(
    ("program", "cause"), [("sleep", "exit"), ("supervisor.task", "supervisor_lost")]
)
def test_what_is_killed_leaves_nothing(
    slurm_cluster: SlurmCluster, program: str, cause: str
) -> None:
    """A rank of the second task; and the task of the second node that has the supervisor."""
    bench, _ = campaign(slurm_cluster, f"killed-{cause}", STEPS + "exec sleep 300")
    bench.start()
    node = slurm_cluster.compute[1]

    def there() -> list[int]:
        found = ((pid, argv) for pid, argv in node.processes())
        return [pid for pid, argv in found if any(program in word for word in argv)]

    wait(
        lambda: bool(list(bench.campaign.glob("*/*/*/nodes/0001*/started.json"))), 400, "the start"
    )

    def is_first(pid: int) -> bool:
        variables = node.exec(["cat", f"/proc/{pid}/environ"], capture_output=True, text=True)
        return "SLURM_LOCALID=0" in variables.stdout.split("\0")

    wait(lambda: len(there()) >= 2, 400, program)
    killed = max(there()) if program == "sleep" else next(filter(is_first, there()))
    node.signal(killed, signal.SIGKILL)
    code, said = bench.finish(timeout=400)
    assert code == 1, said
    outcome = ended(bench)
    assert outcome["cause"] == cause, outcome
    wait(
        lambda: not [argv for each in slurm_cluster.compute for _, argv in each.processes()],
        30,
        "no process",
    )


def test_scancel_ends_all_ranks(slurm_cluster: SlurmCluster) -> None:
    bench, _ = campaign(slurm_cluster, "ranks-cancelled", STEPS + "exec sleep 300")
    bench.start()
    wait(
        lambda: bool(list(bench.campaign.glob("*/*/*/nodes/0001*/started.json"))), 400, "the start"
    )
    (line,) = slurm_cluster.jobs()
    slurm_cluster.run(["scancel", line.split()[0]], check=True)
    bench.finish(timeout=400)
    assert ended(bench)["cause"] == "cancelled"


def test_the_trainer_gets_slurms_variables_where_it_is_asked(slurm_cluster: SlurmCluster) -> None:
    folder = user_folder(slurm_cluster, "variables")
    matrix = {
        "name": "variables",
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 2, "cwd": str(folder)},
            **{"argv": ["bash", "-c", STEPS + "echo at $SLURM_NODEID of $SLURM_NNODES"]},
            "log": {"step": r"step (\d+)"},
        },
    }
    bench = SlurmBench(slurm_cluster, folder, matrix, {"slurm_variables": True})
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (log,) = bench.campaign.glob(f"{names.ATTEMPTS}/nodes/0001*/{names.LOG}")
    assert "at 1 of 2" in log.read_text()
