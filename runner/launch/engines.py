"""Which engine an inventory's runs go through: the one place that knows them all."""

from pathlib import Path

from runner.base.errors import UserError
from runner.launch.engine import Engine
from runner.launch.ssh.ssh_engine import SshEngine
from runner.terms.cluster import Cluster


def engine_of(cluster: Cluster, runs: Path) -> Engine:
    """Return the engine of a cluster; `runs` is the folder of all campaigns."""
    if getattr(cluster, "slurm", None) is not None:
        raise UserError("cluster_engine: slurm cannot start runs yet; set it to ssh")
    return SshEngine(cluster, runs)
