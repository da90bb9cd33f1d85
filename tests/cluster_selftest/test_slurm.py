"""Slurm on the test nodes: jobs of an ordinary user, faults on demand, nothing left behind."""

import pytest

from tests.cluster.slurm import SlurmCluster
from tests.cluster.system import wait_for

pytestmark = pytest.mark.cluster

SAY = "echo $SLURMD_NODENAME $(id -un) $CUDA_VISIBLE_DEVICES"


def state(slurm: SlurmCluster, job: str) -> str:
    """What the controller says of a job, whether it has ended or not."""
    record = slurm.slurm("scontrol", "-o", "show", "job", job)
    return dict(word.partition("=")[::2] for word in record.split())["JobState"]


def submit(slurm: SlurmCluster, *words: str) -> str:
    """Submit a job; its id."""
    argv = ["sbatch", "--parsable", f"--chdir={slurm.shared}/home", *words]
    return str(slurm.run(argv, check=True).stdout).strip()


def test_faults_and_the_cure(slurm_cluster: SlurmCluster) -> None:
    slurm = slurm_cluster
    job = submit(slurm, "--no-requeue", "--constraint=fast", "--wrap", "sleep 1000")
    assert wait_for(lambda: state(slurm, job) == "RUNNING", 10)
    (host,) = slurm.slurm("squeue", "-h", "-j", job, "-o", "%N").split()
    slurm.node_down(next(node for node in slurm.compute if node.hostname == host))
    assert wait_for(lambda: state(slurm, job) == "NODE_FAIL", 10)
    slurm.configure(MinJobAge=2)
    assert "MinJobAge               = 2 sec" in slurm.slurm("scontrol", "show", "config")
    slurm.controller_down()
    assert slurm.login.exec(["pidof", "slurmctld"]).returncode == 1
    assert slurm.heal() == []
    assert set(slurm.states().values()) == {"idle"}
    assert "MinJobAge               = 300 sec" in slurm.slurm("scontrol", "show", "config")

    waiting = submit(slurm, "--hold", "--wrap", "true")
    assert slurm.heal() == [f"job {waiting} wrap PENDING"]
    assert slurm.heal() == []
