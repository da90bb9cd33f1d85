"""Slurm on the test nodes: jobs of an ordinary user, faults on demand, nothing left behind."""

import os
from pathlib import Path

import pytest

from tests.cluster import Cluster, ClusterError
from tests.cluster.slurm import SlurmCluster
from tests.cluster.slurm_files import halves, topology_conf
from tests.cluster.system import wait_for
from tests.cluster_selftest.test_commands import cli, traces

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


def test_jobs_of_an_ordinary_user(slurm_cluster: SlurmCluster) -> None:
    slurm = slurm_cluster
    hosts = [node.hostname for node in slurm.compute]
    assert "node1" not in slurm.states()
    ran = slurm.run(["srun", "-N2", "--gpus-per-node=1", "sh", "-c", SAY])
    assert sorted(ran.stdout.splitlines()) == [f"{host} trainer 0" for host in hosts[:2]]
    write = f'srun -N2 --ntasks-per-node=1 sh -c "{SAY}" >said'.replace("$", r"\$")
    job = submit(slurm, "-N2", "--constraint=slow", "--gres=gpu:2", "--wait", "--wrap", write)
    said = (slurm.shared / "home/said").read_text()  # the same path here as on every node
    assert sorted(said.splitlines()) == [f"{host} trainer 0,1" for host in hosts[2:]]
    ended = slurm.run(["sacct", "-c", "-n", "-P", "-j", job, "-o", "jobid,state,nodelist"])
    assert ended.stdout == f"{job}|COMPLETED|node[4-5]\n"


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


def test_command_line_of_slurm(tmp_path: Path) -> None:
    name, directory = f"s{os.getpid():x}", tmp_path / "state"
    try:
        up = cli("up", "--slurm", "--name", name, "--nodes", "1", "--dir", str(directory))
        assert up.returncode == 0, up.stderr
        assert f"login --name {name} -- squeue" in up.stdout
        again = cli("up", "--slurm", "--name", name, "--nodes", "1")
        assert "is up already" in again.stdout
        other = cli("up", "--name", name, "--nodes", "2")
        assert "already with 2 nodes and Slurm, not 2" in other.stderr
        ran = cli("login", "--name", name, "--", "srun", "sh", "-c", "hostname; exit 7")
        assert (ran.stdout, ran.returncode) == ("node2\n", 7)
        assert wait_for(lambda: "Slurm: node2 idle" in cli("status").stdout, 10)
    finally:
        down = cli("down", "--name", name)
    assert down.returncode == 0, down.stderr
    assert traces(name, directory) == []  # no daemon of Slurm either: their roots were below it


def test_a_cluster_without_slurm_is_not_one() -> None:
    with Cluster(1) as cluster, pytest.raises(ClusterError, match="has no Slurm"):
        SlurmCluster.load(cluster.name)


def test_switches_have_half_of_the_nodes_each() -> None:
    assert halves(["a", "b", "c"]) == (["a", "b"], ["c"])
    assert topology_conf(["a"]) == "SwitchName=leaf0 Nodes=a\nSwitchName=top Switches=leaf[0-0]\n"
