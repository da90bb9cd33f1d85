"""A site's first page: regressions, campaigns, cells over time, all points. Pure."""

from collections.abc import Sequence
from typing import Any

from node.time_words import lasts
from runner.base.clock import ZONE
from runner.base.text import counted
from runner.history.cell_points import UNOFFICIAL, CampaignPoints, Point
from runner.history.regression_list import when
from runner.history.regressions import Regression
from runner.history.series import Series
from runner.report.details import anchor
from runner.site import site_paths
from runner.site.cell_pages import campaign_link, chance
from runner.site.sheets import (
    PageCell,
    PageColumn,
    PageRow,
    PageSheet,
    axes,
    axis_cell,
    figure,
    status,
    text_cell,
    why_not,
    with_interval,
)
from runner.site.site_model import WholeSite
from runner.tables.catalogue.every_column import title
from runner.tables.formatting import MISSING
from runner.terms.memory import MEMORY

MOST_REGRESSIONS = 20  # that the page names; the file has all
_RATES = ("tokens_per_s_per_device", "mfu_percent")
MOST_AXES = 8  # columns of the table of points
IDENTITY = (
    "A cell is the same one where system, nodes, devices per node, the kind of machine and every"
    " parameter but the pin and the environment variables are."
)


def page(site: WholeSite) -> dict[str, Any]:
    """Return what templates/site/index.html.j2 needs."""
    points = [point for campaign in site.campaigns for point in campaign.points]
    statuses = [str(point.row["status"]) for point in points]
    regressions = site.regressions
    still = sum(regression.open for regression in regressions)
    return {
        "title": counted(len(site.campaigns), "campaign"),
        "counts": [(statuses.count(word), word) for word in dict.fromkeys(statuses)],
        "words": (
            f"{counted(len(site.series), 'cell')}, {len(site.over_time)} of them in several"
            " campaigns"
        ),
        "points": site_paths.POINTS,
        "regressions_json": site_paths.REGRESSIONS,
        "regression_words": (
            f"{len(regressions)} found, {still} of them open: no later campaign is back."
            if regressions
            else _none_found(site)
        ),
        "regressions": _grouped(site, regressions[:MOST_REGRESSIONS]),
        "regressions_left": max(0, len(regressions) - MOST_REGRESSIONS),
        "campaigns": _campaigns(site),
        "left_out": site.left_out,
        "identity": IDENTITY,
        "over_time": _over_time(site),
        "all_points": _points(site, points),
        "unofficial": UNOFFICIAL,
    }


def _none_found(site: WholeSite) -> str:
    """Say what the list is empty of: a campaign may still be worse than the one before it."""
    worse = sum(bool(comparison.regressions) for comparison in site.comparisons.values())
    text = "None was found: no cell changed for the worse and stayed so."
    if worse:
        text += (
            f" {counted(worse, 'campaign')} had cells that were worse than in the campaign before"
            " (table below): one campaign alone does not make a change over time."
        )
    return text


def _grouped(site: WholeSite, regressions: Sequence[Regression]) -> list[dict[str, Any]]:
    """Group what a campaign's cells have in common: the campaign, the machine, what changed."""
    groups: dict[tuple[Any, ...], list[Regression]] = {}
    for regression in regressions:
        groups.setdefault(
            (regression.first_id, regression.series.machine, regression.differs), []
        ).append(regression)
    return [
        {
            "date": when(members[0].first.began),
            "campaign": site.by_id[first_id].name,
            "campaign_href": site_paths.campaign(first_id),
            "machine": machine,
            "differs": differs,
            "cells": [
                {
                    "word": regression.word,
                    "open": regression.open,
                    "sentence": regression.sentence,
                    "href": site_paths.cell(regression.series),
                    "chance": chance(regression.p),
                }
                for regression in members
            ],
        }
        for (first_id, machine, differs), members in groups.items()
    ]


def _campaigns(site: WholeSite) -> PageSheet:
    columns = [
        PageColumn("campaign", "campaign"),
        PageColumn("date", f"began ({ZONE})"),
        PageColumn("before", "against the one before"),
        PageColumn("cells", "cells", number=True),
        PageColumn("ok", "ok", number=True),
        PageColumn("not_ok", "not ok", number=True),
        PageColumn("publishable", "publishable", number=True),
        PageColumn("unofficial", "unofficial", filtered=True),
        PageColumn("machine", "machine", filtered=True),
        PageColumn("took", "took", number=True),
        PageColumn("source", "read from"),
    ]
    before = {now: (was, comparison) for (was, now), comparison in site.comparisons.items()}
    rows = []
    for campaign in site.campaigns:
        cells, ok = len(campaign.points), campaign.count("ok")
        good = sum(point.finished and not point.row["verdict_reasons"] for point in campaign.points)
        was = before.get(campaign.id)
        versus = text_cell("nothing to compare with")
        if was:
            worse = was[1].regressions
            verdict = f"{counted(worse, 'cell')} worse" if worse else "no cell worse"
            versus = text_cell(
                verdict, "bad-text" if worse else "", site_paths.comparison(was[0], campaign.id)
            )
        rows.append(
            PageRow(
                [
                    text_cell(campaign.name, href=site_paths.campaign(campaign.id)),
                    text_cell(when(campaign.began)),
                    versus,
                    *(PageCell(str(n), n, "number") for n in (cells, ok, cells - ok, good)),
                    text_cell(
                        ", ".join([*campaign.marks, *(["running"] if campaign.live else [])])
                    ),
                    text_cell(", ".join(campaign.machines), "spread"),
                    PageCell(lasts(campaign.wall_s), campaign.wall_s, "number"),
                    text_cell(campaign.source),
                ],
                f"campaign-{campaign.id}",
            )
        )
    return PageSheet("runs", "Campaigns", columns, rows[::-1])


def _over_time(site: WholeSite) -> PageSheet:
    columns = [
        PageColumn("cell", "cell"),
        PageColumn("now", "samples/s now", number=True),
        PageColumn("regressed", "regressed", filtered=True),
        PageColumn("last", "last change"),
        PageColumn("changes", "changes", number=True),
        PageColumn("campaigns", "campaigns", number=True),
        PageColumn("system", "system", filtered=True),
        PageColumn("machine", "machine", filtered=True),
    ]
    return PageSheet("over", "Cells over time", columns, [_over(site, s) for s in site.over_time])


def _over(site: WholeSite, series: Series) -> PageRow:
    last_change = series.changes[-1] if series.changes else None
    finished = [point for point in series.points if point.finished]
    worse = [regression for regression in site.regressions if regression.series is series]
    state = (
        "open" if any(regression.open for regression in worse) else "recovered" if worse else "no"
    )
    return PageRow(
        [
            text_cell(series.cell, href=site_paths.cell(series)),
            figure(finished[-1], "samples_per_s") if finished else PageCell(MISSING, "", "number"),
            text_cell(state, "bad-text" if state == "open" else ""),
            text_cell(
                f"{last_change.word} {last_change.change.percent:+.1f} %,"
                f" {when(last_change.first.began)}"
                if last_change
                else ""
            ),
            PageCell(str(len(series.changes)), len(series.changes), "number"),
            PageCell(str(len(series.points)), len(series.points), "number"),
            text_cell(series.system),
            text_cell(series.machine, "spread"),
        ]
    )


def _points(site: WholeSite, points: Sequence[Point]) -> PageSheet:
    names = list(dict.fromkeys(name for point in points for name in axes(point)))[:MOST_AXES]
    memory = [key for key in MEMORY if any(point.figure(key) is not None for point in points)]
    columns = [
        PageColumn("cell", "cell"),
        PageColumn("samples_per_s", title("samples_per_s"), number=True),
        PageColumn("status", "status", filtered=True),
        PageColumn("campaign", "campaign", filtered=True),
        PageColumn("date", f"date ({ZONE})"),
        PageColumn("why", "caveats"),
        *(PageColumn(key, title(key), number=True) for key in _RATES),
        *(PageColumn(key, title(key), number=True) for key in memory),
        PageColumn("unofficial", "unofficial", filtered=True),
        PageColumn("system", "system", filtered=True),
        PageColumn("machine", "machine", filtered=True),
        PageColumn("nodes", "nodes", number=True, filtered=True),
        PageColumn("devices", "devices", number=True, filtered=True),
        *(
            PageColumn(f"axis.{name}", name, filtered=True)
            for name in names
            if name not in ("nodes", "devices")
        ),
    ]
    axis_names = [name for name in names if name not in ("nodes", "devices")]
    rows = [
        _point(site, campaign, point, axis_names, memory)
        for campaign in reversed(site.campaigns)
        for point in campaign.points
    ]
    return PageSheet("cells", "All points", columns, rows)


def _point(
    site: WholeSite,
    campaign: CampaignPoints,
    point: Point,
    names: Sequence[str],
    memory: Sequence[str],
) -> PageRow:
    row, href = point.row, campaign_link(campaign.id, point)
    series = site.by_key.get(point.key)
    return PageRow(
        [
            text_cell(point.cell, href=site_paths.cell(series) if series else href),
            with_interval(point, "samples_per_s", href),
            status(point),
            text_cell(campaign.name, href=href),
            text_cell(when(point.began)),
            text_cell(why_not(point), "why"),
            *(figure(point, key) for key in (*_RATES, *memory)),
            text_cell(", ".join(point.unofficial)),
            text_cell(row["system"]),
            text_cell(point.machine, "spread"),
            PageCell(str(row["nodes"]), row["nodes"], "number"),
            PageCell(str(row["devices"]), row["devices"], "number"),
            *(axis_cell(point, name) for name in names),
        ],
        f"{anchor(campaign.id)}-{anchor(str(row['cell_id']))}",
        not point.finished,
    )
