"""The list of regressions as one HTML page, with the campaigns and links to their reports."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from node.time_words import lasts
from runner.base.text import counted, listing
from runner.history.points import CampaignPoints
from runner.history.regression_list import HEADERS, MOST_FACTS, Listed, row_of, when
from runner.history.regressions import Regression
from runner.history.sources import EXPORTS
from runner.report.details import anchor
from runner.report.links import href
from runner.report.templating import content_policy, templates
from runner.tables.row import finished

CAMPAIGN_HEADERS = (
    "campaign", "began (UTC)", "took", "cells", "ok", "publishable", "unofficial", "machine",
    "read from",
)  # fmt: skip


def to_html(regressions: Sequence[Regression], read: Listed, base: Path) -> str:
    """Write the page, for the folder `base`: its links to reports begin there."""
    links = {campaign.id: _report(campaign.path, base) for campaign in read.campaigns}
    page = templates().get_template("history/index.html.j2")
    return page.render(
        policy=content_policy([]),
        found=[_regression(each, links[each.first.campaign]) for each in regressions],
        found_headers=(*HEADERS, "reason, what changed with it"),
        count=counted(len(regressions), "regression"),
        still=sum(regression.open for regression in regressions),
        campaigns=[(links[each.id], _texts(each)) for each in reversed(read.campaigns)],
        campaign_headers=CAMPAIGN_HEADERS,
        left_out=read.left_out,
    )


def _report(source: Path, base: Path) -> str | None:
    """Return the link to a campaign's report, of its name beside it: runs/a and runs/a.html."""
    name = source.name
    for suffix in EXPORTS:
        name = name.removesuffix(suffix)
    report = source.resolve().with_name(f"{name}.html")
    return href(os.path.relpath(report, base.resolve())) if report.is_file() else None


def _regression(regression: Regression, report: str | None) -> tuple[str | None, list[str]]:
    changes = [f"{key}: {was}, then {now}" for key, was, now in regression.differs]
    cell = anchor(str(regression.first.row["cell_id"]))
    why = [regression.reason, listing(changes, MOST_FACTS, "; ") if changes else ""]
    texts = [*row_of(regression), "; ".join(filter(None, why))]
    return report and f"{report}#{cell}", texts


def _texts(campaign: CampaignPoints) -> list[Any]:
    points = campaign.points
    publishable = sum(finished(point.row) and not point.row["verdict_reasons"] for point in points)
    return [
        campaign.name,
        when(campaign.began),
        lasts(campaign.wall_s),
        len(points),
        sum(point.row["status"] == "ok" for point in points),
        publishable,
        ", ".join([*campaign.marks, *(["running"] if campaign.live else [])]),
        ", ".join(dict.fromkeys(point.machine for point in points)),
        campaign.source,
    ]
