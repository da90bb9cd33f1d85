"""Which engine an inventory's runs go through: the one place that makes them all."""

import pkgutil
from collections.abc import Callable
from pathlib import Path

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign, find_campaign
from runner.launch.engine import EngineMaker, Stopped, Surveyor
from runner.terms.cluster import Cluster
from runner.terms.engines.engine_settings import EngineSettings
from runner.terms.engines.engine_table import ENGINES


def engine_of(cluster: Cluster, runs: Path) -> Surveyor:
    """Return the engine of a cluster; `runs` is the folder of all campaigns."""
    return _maker(cluster.engine)(cluster, runs)


def stop_jobs(
    runs: Path, name: str, cancelled: Callable[[], bool], *, needed: bool = True
) -> Stopped:
    """End the jobs of one campaign, which knows them: what that was, and of which campaigns.

    Raises UserError where they are `needed` and it never had any: its engine reaches nodes that an
    inventory names.
    """
    campaigns = [Campaign(path.parent) for path in runs.glob(f"*/{names.CAMPAIGN}")]
    selected = [campaign for campaign in campaigns if campaign.name == name]
    for settings in ENGINES.values():
        lines, ids = _maker(settings).stop_campaigns(selected, cancelled)
        if ids:
            return lines, ids
    if not needed:
        return (), ()
    raise UserError(
        f"campaign {find_campaign(runs, name).name} handed nothing to a queue; to end what runs on"
        " its nodes: python -m runner stop -i INVENTORY"
    )


def look_in(campaign: Campaign) -> None:
    """Have it written down where runs stand that were handed to a queue, and no bench follows."""
    if campaign.is_locked() or not any(run.queue_has_it for run in campaign.running()):
        return
    for settings in ENGINES.values():
        _maker(settings).look_in(campaign)


def _maker(settings: EngineSettings | type[EngineSettings]) -> EngineMaker:
    maker: EngineMaker = pkgutil.resolve_name(settings.launcher)
    return maker
