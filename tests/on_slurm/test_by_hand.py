"""job.sh of a run, given to sbatch by a person: it does what bench had the nodes do."""

import json
import signal

import pytest

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]

EVIL = """it's "$HOME" `id` $(id) * \\ é"""
SAY = (
    'for s in 1 2 3 4 5; do echo step $s; done; echo "$1 at $2 of $MASTER $NOTE $ODD";'
    ' test -d "$TMPDIR"; echo here > "$3/wrote"'
)


@pytest.mark.parametrize("mode", ["job", "allocation"])
def test_sbatch_job_sh_runs_it_again(slurm_cluster: SlurmCluster, mode: str) -> None:
    """Words of the job, of the node and of the run's folder; lines of setup and of teardown."""
    folder = user_folder(slurm_cluster, f"hand-{mode}")
    argv = ["bash", "-e", "-c", SAY, "x", EVIL, "{node_rank}", "{run_dir}"]
    matrix = {
        "name": "hand",
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 1, "cwd": str(folder)},
            **{"argv": argv, "log": {"step": r"step (\d+)"}, "env": {"ODD": EVIL}},
        },
    }
    variables = {
        "slurm_mode": mode,
        "slurm_setup": ["export NOTE=set-up MASTER=there"],
        "slurm_teardown": [f"touch {folder}/left-$NOTE-$SLURM_NODEID; rm {folder}/left-*"],
    }
    bench = SlurmBench(slurm_cluster, folder, matrix, variables)
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    run = next(bench.campaign.glob(names.ATTEMPTS))
    before = sorted((path, path.stat().st_mtime) for path in run.rglob("*"))
    script = run / names.JOB_SCRIPT
    sent = ["sbatch", "--parsable", "--wait", f"--chdir={folder}", str(script)]
    done = slurm_cluster.run(sent, check=True)
    job = done.stdout.strip()
    output = (folder / f"slurm-{job}.out").read_text()
    for rank in (0, 1):
        assert f"{rank}: {EVIL} at {rank} of there set-up {EVIL}" in output.splitlines()
        (log,) = run.glob(f"nodes/000{rank}-*/{names.LOG}")
        assert f"{EVIL} at {rank} of there set-up {EVIL}" in log.read_text().splitlines()
        assert (folder / job / str(rank) / "wrote").read_text() == "here\n"
    assert sorted((path, path.stat().st_mtime) for path in run.rglob("*")) == before
    assert json.loads((run / names.OUTCOME).read_text())["status"] == "ok"


def test_a_run_that_fails_by_hand_is_a_failed_job(slurm_cluster: SlurmCluster) -> None:
    folder = user_folder(slurm_cluster, "hand-fails")
    matrix = {
        "name": "hand",
        "defaults": {
            **{"system": "command", "nodes": 2, "devices_per_node": 1, "cwd": str(folder)},
            **{"argv": ["bash", "-c", "exit $((3 * {node_rank}))"], "log": {"step": r"s (\d+)"}},
        },
    }
    bench = SlurmBench(slurm_cluster, folder, matrix)
    bench.run()
    script = next(bench.campaign.glob(f"{names.ATTEMPTS}/{names.JOB_SCRIPT}"))
    done = slurm_cluster.run(["sbatch", "--wait", f"--chdir={folder}", str(script)])
    # srun's is the highest of all ranks, and it kills those that have not ended by then.
    assert done.returncode in (3, 128 + signal.SIGTERM), done.stdout + done.stderr
