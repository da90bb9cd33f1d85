"""Which engine an inventory's runs go through: the one place that knows them all."""

from pathlib import Path

from runner.launch.engine import Engine
from runner.launch.slurm.slurm_engine import SlurmEngine
from runner.launch.ssh.ssh_engine import SshEngine
from runner.terms.cluster import Cluster


def engine_of(cluster: Cluster, runs: Path) -> Engine:
    """Return the engine of a cluster; `runs` is the folder of all campaigns."""
    if cluster.slurm is not None:
        return SlurmEngine(cluster, cluster.slurm)
    return SshEngine(cluster, runs)
