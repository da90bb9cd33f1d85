"""What cells and the command line ask of the queue, on real Slurm: GPUs, account, comment."""

import json

import pytest

from runner.folder import names
from tests.cluster.slurm import SlurmCluster
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.nightly("slurm", by_day="row"), pytest.mark.cluster]


def test_cells_and_the_command_line_ask_the_queue(slurm_cluster: SlurmCluster) -> None:
    """A cell of one GPU takes one, one of two takes two; the job's record has the rest."""
    install_stand_in(slurm_cluster)
    matrix = {
        "name": "asks",
        "defaults": {
            **{"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 4, "nodes": 1},
            "global_batch_size": 16,
            "env": {"STEP_S": "0.1"},
        },
        "include": [
            {"devices_per_node": 1, "slurm_nice": 7, "slurm_exclusive_user": True},
            {"devices_per_node": 2, "slurm_comment": "P-17"},
        ],
        "warmup_iters": 0,
        "time_limit_s": 60,
    }
    bench = SlurmBench(slurm_cluster, user_folder(slurm_cluster, "asks"), matrix)
    ran = bench.run("--queue", "gpus_per_node=cell", "--queue", "time_margin_s=120")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = {}
    for attempt in bench.campaign.glob(names.ATTEMPTS):
        number = json.loads((attempt / names.SUBMITTED).read_text())["job_id"]
        run = json.loads((attempt / names.RUN).read_text())
        shown = slurm_cluster.run(["scontrol", "show", "job", str(number)], check=True).stdout
        asked = ["squeue", "--states=all", "--noheader", f"--jobs={number}", "--format=%k"]
        comment = slurm_cluster.run(asked, check=True).stdout.strip()
        records[run["cell"]["devices_per_node"]] = shown + comment
    assert set(records) == {1, 2}
    for gpus, shown in records.items():
        assert f"gres:gpu:{gpus}" in shown, shown
        assert "TimeLimit=00:03:00" in shown
    assert "Nice=7" in records[1]
    assert "OverSubscribe=USER" in records[1]
    assert records[2].endswith(",P-17")
