"""Which engine an inventory's runs go through: the one place that knows them all."""

from functools import partial
from pathlib import Path

from runner.folder.campaign import Campaign
from runner.launch.engine import Engine
from runner.launch.slurm.preview import preview
from runner.launch.slurm.slurm_engine import SlurmEngine
from runner.launch.ssh.ssh_engine import SshEngine
from runner.plan.dryrun import Preview
from runner.terms.cluster import Cluster


def preview_of(cluster: Cluster, campaign: Campaign) -> Preview | None:
    """Return what says of runs, without asking anybody, what a scheduler would be given for them.

    None where there is no scheduler.
    """
    return partial(preview, cluster, campaign) if cluster.slurm is not None else None


def engine_of(cluster: Cluster, runs: Path) -> Engine:
    """Return the engine of a cluster; `runs` is the folder of all campaigns."""
    if cluster.slurm is not None:
        return SlurmEngine(cluster, cluster.slurm)
    return SshEngine(cluster, runs)
