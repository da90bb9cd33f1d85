"""The plain data beside the pages: every point, and every regression."""

from typing import Any

from runner.base.escapes import json_text
from runner.history import regression_list
from runner.history.cell_points import CampaignPoints, Point
from runner.site import site_paths
from runner.site.cell_pages import campaign_link
from runner.site.site_model import WholeSite

SCHEMA = 1


def points(site: WholeSite) -> str:
    """Write one JSON object with the campaigns and every cell of each, with links to the pages.

    A point has the columns of `collect --format json` (schema: table.json) in `row`.
    """
    document = {
        "schema": SCHEMA,
        "campaigns": [_campaign(campaign) for campaign in site.campaigns],
        "left_out": [
            {"source": unread.source, "reason": unread.reason} for unread in site.left_out
        ],
        "points": [
            _point(site, campaign, point)
            for campaign in site.campaigns
            for point in campaign.points
        ],
    }
    return json_text(document, indent=1) + "\n"


def regressions(site: WholeSite) -> str:
    """Write what `history --format json` does, with links to the pages."""
    document = regression_list.document(site.regressions, site.campaigns, site.left_out)
    for data, regression in zip(document["regressions"], site.regressions, strict=True):
        data["page"] = site_paths.cell(regression.series)
    return json_text(document, indent=1) + "\n"


def _campaign(campaign: CampaignPoints) -> dict[str, Any]:
    return {
        "id": campaign.id,
        "name": campaign.name,
        "source": campaign.source,
        "page": site_paths.campaign(campaign.id),
        "began": campaign.began,
        "wall_s": campaign.wall_s,
        "machines": list(campaign.machines),
        "unofficial": list(campaign.marks),
        "running": campaign.live,
        "hidden": campaign.hidden,
        "environment": dict(campaign.environment),
    }


def _point(site: WholeSite, campaign: CampaignPoints, point: Point) -> dict[str, Any]:
    series = site.by_key.get(point.key)
    return {
        "campaign": campaign.id,
        "page": campaign_link(campaign.id, point),
        "over_time": site_paths.cell(series) if series else None,
        "machine": point.machine,
        "began": point.began,
        "unofficial": list(point.unofficial),
        "logs": dict(point.logs),
        "facts": dict(point.facts),
        "row": dict(point.row),
    }
