"""Which engine an inventory's runs go through: the one place that knows them all."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign, find_campaign
from runner.launch.engine import Surveyor
from runner.launch.slurm.preview import preview
from runner.launch.slurm.slurm_engine import SlurmEngine
from runner.launch.slurm.stopping import has_jobs, stop
from runner.launch.ssh.ssh_engine import SshEngine
from runner.plan.dryrun import Preview
from runner.terms.cluster import Cluster


def preview_of(cluster: Cluster, campaign: Campaign) -> Preview | None:
    """Return what says of runs, without asking anybody, what a scheduler would be given for them.

    None where there is no scheduler.
    """
    return partial(preview, cluster, campaign) if cluster.slurm is not None else None


def engine_of(cluster: Cluster, runs: Path) -> Surveyor:
    """Return the engine of a cluster; `runs` is the folder of all campaigns."""
    if cluster.slurm is not None:
        return SlurmEngine(cluster, cluster.slurm)
    return SshEngine(cluster, runs)


def stop_all(
    cluster: Cluster, runs: Path, cancelled: Callable[[], bool]
) -> tuple[Sequence[str], Sequence[Campaign]]:
    """End what a cluster still has of campaigns: what that was, and of which campaigns.

    Nodes that are reached over ssh know of none, and end whatever they run.
    """
    if cluster.slurm is None:
        return SshEngine(cluster, runs).stop(cancelled), ()
    there = _with_jobs(runs)
    return stop(there, cancelled), there


def stop_jobs(
    runs: Path, name: str, cancelled: Callable[[], bool]
) -> tuple[Sequence[str], Sequence[Campaign]]:
    """End the jobs of one campaign, which knows them, as `stop_all`.

    Raises UserError where it never had any: its engine reaches nodes that an inventory names.
    """
    there = [campaign for campaign in _with_jobs(runs) if campaign.name == name]
    if not there:
        raise UserError(
            f"campaign {find_campaign(runs, name).name} handed nothing to Slurm; to end what runs"
            " on its nodes: python -m runner stop -i INVENTORY"
        )
    return stop(there, cancelled), there


def _with_jobs(runs: Path) -> list[Campaign]:
    """Return the campaigns that ever handed anything to Slurm, if only an allocation's request."""
    found = [Campaign(path.parent) for path in sorted(runs.glob(f"*/{names.CAMPAIGN}"))]
    return [campaign for campaign in found if has_jobs(campaign)]
