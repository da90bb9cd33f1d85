"""Campaigns and exports to a folder of pages: an index with what got worse, a report of each."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from node.printable import printable
from node.program_output import os_error_words
from node.time_words import lasts
from runner.base.errors import UserError
from runner.base.text import listing
from runner.history.cell_points import CampaignPoints
from runner.history.reading import opened, points_of, sorted_out, why_unread
from runner.history.regression_list import HEADERS, MOST_FACTS, Listed, row_of, when
from runner.history.regressions import Regression, regressions
from runner.history.series import all_series
from runner.history.workers import parallel_map
from runner.report.details import anchor
from runner.report.page import to_html
from runner.report.page_script import content_policy
from runner.report.templating import templates

INDEX, REPORTS = "index.html", "campaigns"
CAMPAIGN_HEADERS = (
    "campaign", "began (UTC)", "took", "cells", "ok", "publishable", "unofficial", "machine",
    "read from",
)  # fmt: skip
ReportProgress = Callable[[int], None]  # how many campaigns are read


def make_site(
    sources: Sequence[Path], target: Path, report_progress: ReportProgress
) -> tuple[Listed, list[Regression]]:
    """Write the pages of the campaigns `sources` to `target`, a new or an empty folder.

    Raises UserError where none can be read, or the folder cannot be written; it is then as before.
    """
    target = Path(os.path.abspath(target))
    name = printable(str(target))
    try:
        if target.is_symlink() or (target.exists() and any(target.iterdir())):
            raise UserError(f"{name} is not empty; remove it, or name a new folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as scratch:
            folder = Path(scratch) / "site"
            (folder / REPORTS).mkdir(parents=True)
            answer = _written(sources, folder, report_progress)
            folder.replace(target)
            return answer
    except OSError as error:
        why = os_error_words(error, str(target.parent))
        raise UserError(f"{name} cannot be written: {why}") from None


def _written(
    sources: Sequence[Path], folder: Path, report_progress: ReportProgress
) -> tuple[Listed, list[Regression]]:
    orders = [(source, folder / REPORTS / f".{at}") for at, source in enumerate(sources)]
    read: list[tuple[Path, CampaignPoints | str]] = []
    for source, outcome in zip(sources, parallel_map(_report, orders), strict=True):
        read.append((source, outcome))
        report_progress(len(read))
    campaigns, left_out = sorted_out(read)
    if not campaigns:
        raise UserError(f"none of {len(sources)} can be read: {left_out[0].reason}")
    for (_, page), (_, outcome) in zip(orders, read, strict=True):
        if isinstance(outcome, CampaignPoints) and any(outcome is kept for kept in campaigns):
            page.rename(folder / _page_of(outcome.id))
        else:
            page.unlink(missing_ok=True)
    listed = Listed(campaigns, left_out, all_series(campaigns))
    found = regressions(listed.series, campaigns)
    text = templates().get_template("site/index.html.j2").render(_index(listed, found))
    (folder / INDEX).write_text(text, encoding="utf-8", newline="\n")
    return listed, found


def _report(order: tuple[Path, Path]) -> CampaignPoints | str:
    """Read a campaign and write its report; a sentence where it cannot be read."""
    source, page = order
    try:
        with opened(source, evidence=True) as read:
            campaign = points_of(read)
            text = to_html(read.document.without_files(), home=f"../{INDEX}")
    except Exception as error:  # whatever is in one campaign, the site has the others
        return why_unread(error)
    page.write_text(text, encoding="utf-8", newline="\n")
    return campaign


def _page_of(id: str) -> str:
    return f"{REPORTS}/{id}.html"


def _index(listed: Listed, found: Sequence[Regression]) -> dict[str, Any]:
    """Return what templates/site/index.html.j2 needs; a row is a link and its texts."""
    return {
        "policy": content_policy([]),
        "found": [_regression(regression) for regression in found],
        "found_headers": (*HEADERS, "reason, what changed with it"),
        "still": sum(regression.open for regression in found),
        "campaigns": [_campaign(campaign) for campaign in reversed(listed.campaigns)],
        "campaign_headers": CAMPAIGN_HEADERS,
        "left_out": listed.left_out,
    }


def _regression(regression: Regression) -> tuple[str, list[str]]:
    changes = [f"{key}: {was}, then {now}" for key, was, now in regression.differs]
    cell = anchor(str(regression.first.row["cell_id"]))
    why = [regression.reason, listing(changes, MOST_FACTS, "; ") if changes else ""]
    texts = [*row_of(regression), "; ".join(filter(None, why))]
    return f"{_page_of(regression.first_id)}#{cell}", texts


def _campaign(campaign: CampaignPoints) -> tuple[str, list[str]]:
    points = campaign.points
    publishable = sum(point.finished and not point.row["verdict_reasons"] for point in points)
    texts = [
        campaign.name,
        when(campaign.began),
        lasts(campaign.wall_s),
        str(len(points)),
        str(sum(point.row["status"] == "ok" for point in points)),
        str(publishable),
        ", ".join([*campaign.marks, *(["running"] if campaign.live else [])]),
        ", ".join(campaign.machines),
        campaign.source,
    ]
    return _page_of(campaign.id), texts
