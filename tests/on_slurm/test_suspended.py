"""A job that Slurm suspends and resumes: the run goes on, notes it, and is not `stalled`."""

import time

import pytest

from runner.base.dataclass_schema import shape
from runner.folder import names
from runner.folder.attempt import Prepared
from runner.folder.stored import load
from tests.cluster.slurm import SlurmCluster
from tests.on_nodes.campaign import wait
from tests.on_slurm.campaign import SlurmBench, install_stand_in, user_folder

pytestmark = [pytest.mark.cluster, pytest.mark.nightly("slurm", by_day="row")]


def test_a_suspended_job_goes_on_and_says_so(slurm_cluster: SlurmCluster) -> None:
    install_stand_in(slurm_cluster)
    matrix = {
        "name": "suspended",
        "defaults": {
            **{"system": "torch_gpt", "nodes": 2, "devices_per_node": 1, "micro_batch_size": 1},
            **{"global_batch_size": 2, "train_iters": 20, "env": {"STEP_S": "0.5"}},
        },
        "stall_limit_s": 8,
    }
    bench = SlurmBench(slurm_cluster, user_folder(slurm_cluster, "suspended"), matrix)
    bench.start()
    wait(lambda: bool(list(bench.runs.rglob(names.STARTED))), 400, "the run")
    (job,) = (line.split()[0] for line in slurm_cluster.jobs())
    slurm_cluster.slurm("scontrol", "suspend", job)
    time.sleep(12)
    slurm_cluster.slurm("scontrol", "resume", job)
    code, said = bench.finish()
    assert code == 0, said
    (attempt,) = bench.campaign.glob(names.ATTEMPTS)
    (prepared,) = attempt.glob(f"{names.NODES}/0000-*/{names.PREPARED}")
    note = load(prepared, shape(Prepared)).noted[-1]
    assert note.startswith("the run was suspended for 1")
    assert note.endswith(" s (as by scontrol suspend), and then went on")
