"""The list of regressions: for a terminal, as Markdown, as JSON, as a page with the campaigns."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.printable import printable
from node.time_words import lasts
from runner.base import clock
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, grid
from runner.base.text import counted, listing
from runner.compare.reading import EXPORTS, CampaignPoints, LeftOut, Series
from runner.compare.regressions import Regression
from runner.report.details import anchor
from runner.report.links import href
from runner.report.templating import content_policy, templates
from runner.tables import text
from runner.tables.columns import THRESHOLDS, title
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import finished

SCHEMA = 1
HEADERS = (f"since ({clock.ZONE})", "cell", "machine", "what", "was, is", "change", "now")
CAMPAIGN_HEADERS = (
    "campaign", "began (UTC)", "took", "cells", "ok", "publishable", "unofficial", "machine",
    "read from",
)  # fmt: skip

MOST_FACTS = 6  # that are named below a table; JSON and pages have all


@dataclass(frozen=True)
class Listed:
    """What the list was made from."""

    campaigns: Sequence[CampaignPoints]
    left_out: Sequence[LeftOut]
    series: Sequence[Series]


def to_table(regressions: Sequence[Regression], read: Listed, width: int) -> str:
    """Write it for a terminal of that many columns."""
    parts = [grid(HEADERS, [*map(row_of, regressions)], width)] if regressions else []
    parts.append("\n".join(filled(line, width) for line in _below(regressions, read)))
    return "\n\n".join(parts) + "\n"


def to_markdown(regressions: Sequence[Regression], read: Listed) -> str:
    """Write a heading, a table and notes."""
    below = list(_below(regressions, read))
    table = text.markdown(HEADERS, map(row_of, regressions)) if regressions else ""
    parts = [f"**{MarkdownText(below[0])}**", table, text.bulleted(below[1:])]
    return "\n\n".join(section for section in parts if section) + "\n"


def to_json(regressions: Sequence[Regression], read: Listed) -> str:
    """Write one JSON object; its schema is regressions.json."""
    document = {
        "schema": SCHEMA,
        "thresholds_percent": dict(THRESHOLDS),
        "campaigns": [campaign.id for campaign in read.campaigns],
        "left_out": [{"source": source, "reason": reason} for source, reason in read.left_out],
        "regressions": [regression.as_data() for regression in regressions],
    }
    return json_text(document) + "\n"


def when(seconds: float | None) -> str:
    """Write when a campaign began, to the minute, as far as it is known."""
    return MISSING if seconds is None else clock.minute(seconds)


def row_of(regression: Regression) -> list[str]:
    """Return a regression's texts, one for each of HEADERS."""
    quantity, change = title(regression.quantity or ""), regression.change
    places = None if regression.quantity == "samples_per_s" else 0
    levels = [number_text(v, places) for v in (change.before, change.after)] if change else []
    return [
        when(regression.first.began),
        printable(regression.cell),
        printable(regression.series[-1].machine),
        f"{regression.word} ({quantity})" if quantity else regression.word,
        ", ".join(levels) if change else f"ok, {regression.first.row['status']}",
        f"{change.percent:+.1f}%" if change else MISSING,
        "open" if regression.open else "recovered",
    ]


def _below(regressions: Sequence[Regression], read: Listed) -> list[str]:
    count, still = len(regressions), sum(regression.open for regression in regressions)
    summary = f"{counted(count, 'regression')}, {still} open" if count else "no regression"
    several = [series for series in read.series if len(series) > 1]
    lines = [
        f"{summary}: {counted(len(read.campaigns), 'campaign')},"
        f" {counted(len(read.series), 'cell')},"
        f" {len(several)} of them in several campaigns"
    ]
    lines += _changed(regressions)
    lines += [f"{source} is left out: {reason}" for source, reason in read.left_out]
    return [printable(line) for line in lines]


def _changed(regressions: Sequence[Regression]) -> Iterable[str]:
    """Say once for all cells of a campaign what changed there with them."""
    cells: dict[tuple[str, tuple[tuple[str, str, str], ...]], list[Regression]] = {}
    for regression in regressions:
        if regression.differs:
            cells.setdefault((when(regression.first.began), regression.differs), []).append(
                regression
            )
    for (began, differs), members in cells.items():
        changes = [f"{key}: {was}, then {now}" for key, was, now in differs]
        names = listing(list(dict.fromkeys(regression.cell for regression in members)))
        yield f"with {names} changed on {began}: {listing(changes, MOST_FACTS, '; ')}"


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
