"""Two campaigns side by side: those that followed each other, and any two. Pure."""

from collections.abc import Mapping
from typing import Any

from runner.compare.rendering import as_texts
from runner.compare.verdicts import (
    QUANTITIES,
    RULE,
    VERDICTS,
    WORDS,
    CampaignComparison,
    has_ended,
    noise_percent,
)
from runner.history.cell_points import CampaignPoints, Point
from runner.history.regression_list import day
from runner.history.regressions import TITLES
from runner.history.series import NODES, THRESHOLDS, running
from runner.report.page_script import script_data
from runner.site import places
from runner.site.cell_pages import campaign_link
from runner.site.sheets import PageCell, PageColumn, PageRow, PageSheet, words
from runner.site.whole import WholeSite

ROOT = "../"


def page(a: CampaignPoints, b: CampaignPoints, comparison: CampaignComparison) -> dict[str, Any]:
    """Return what templates/site/comparison.html.j2 needs."""
    texts = as_texts(comparison)
    verdict, cell, *quantities = texts.headers
    columns = [
        PageColumn("cell", cell),
        PageColumn("verdict", verdict),
        *(PageColumn(f"c{at}", title, number=True) for at, title in enumerate(quantities)),
    ]
    rows = [
        PageRow(
            [
                words(row[1]),
                words(row[0], "bad-text" if compared.regressed else ""),
                *(PageCell(text, None, "number") for text in row[2:]),
            ],
            faint=not compared.measures,
        )
        for row, compared in zip(texts.rows, comparison.cells, strict=True)
    ]
    return {
        "a": a.name,
        "b": b.name,
        "a_date": _date(a),
        "b_date": _date(b),
        "a_href": ROOT + places.campaign(a.id),
        "b_href": ROOT + places.campaign(b.id),
        "home": ROOT + places.INDEX,
        "pick": f"{ROOT}{places.PICK}#a={a.id}&b={b.id}",
        "summary": texts.summary,
        "environment": [
            each for each in comparison.environment if each[0] != NODES or not hides_nodes(a, b)
        ],
        "table": PageSheet(
            "cells", "Cells of both", columns, rows, interactive=False, most=len(rows)
        ),
        "notes": [*comparison.notes, *texts.below],
    }


def _date(campaign: CampaignPoints) -> str:
    marks = f" ({', '.join(campaign.marks)})" if campaign.marks else ""
    return f"{day(campaign.began)}{marks}"


def hides_nodes(*campaigns: CampaignPoints) -> bool:
    """Whether one of them does not say which nodes it ran on, but by names of no meaning."""
    return any(each.redacted or each.imported for each in campaigns)


def pick(site: WholeSite) -> dict[str, Any]:
    """Return what templates/site/compare.html.j2 needs."""
    limits = ", ".join(f"{TITLES[name]} {limit:g} %" for name, limit in THRESHOLDS.items())
    return {"home": places.INDEX, "rule": RULE, "limits": limits, "data": script_data(_data(site))}


def _data(site: WholeSite) -> dict[str, Any]:
    numbers = {series.key: at for at, series in enumerate(site.series)}
    texts: dict[str, int] = {}
    return {
        "quantities": [
            {
                "name": name,
                "title": TITLES[name],
                "better": QUANTITIES[name][0],
                "words": WORDS[name],
                "threshold": limit,
                "places": None if name == "samples_per_s" else 0,
            }
            for name, limit in THRESHOLDS.items()
        ],
        "verdicts": list(VERDICTS),
        "worse": [word for word, worse in VERDICTS.items() if worse],
        "campaigns": [_campaign(campaign, numbers, texts) for campaign in site.campaigns],
        "texts": list(texts),
    }


def _campaign(
    campaign: CampaignPoints, numbers: Mapping[str, int], texts: dict[str, int]
) -> dict[str, Any]:
    kept = {k: v for k, v in campaign.environment.items() if k not in ("campaign", "inventory")}
    facts = {k: v for k, v in kept.items() if k != NODES or not hides_nodes(campaign)}
    return {
        "id": campaign.id,
        "title": f"{_date(campaign)} {campaign.name}",
        "live": campaign.live,
        "facts": {key: texts.setdefault(value, len(texts)) for key, value in facts.items()},
        "cells": {str(numbers[point.key]): _cell(campaign, point) for point in campaign.points},
    }


def _cell(campaign: CampaignPoints, point: Point) -> dict[str, Any]:
    return {
        "name": point.cell,
        "status": point.row["status"],
        "ended": not running(point),
        "ran": has_ended(point.row),
        "well": point.ended_well,
        "finished": point.finished,
        "href": campaign_link(campaign.id, point),
        "figures": [_figure(point, name) for name in THRESHOLDS],
    }


def _figure(point: Point, name: str) -> tuple[float, float | None] | None:
    """Return a figure, and half the width of what it may be in percent."""
    value = point.figure(name)
    return None if value is None else (value, noise_percent(point.row, name))
