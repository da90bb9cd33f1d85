"""Two campaigns that followed each other, side by side. Pure."""

from typing import Any

from runner.compare.rendering import as_texts
from runner.compare.verdicts import CampaignComparison
from runner.history.cell_points import CampaignPoints
from runner.history.regression_list import when
from runner.history.series import NODES
from runner.site import site_paths
from runner.site.sheets import PageCell, PageColumn, PageRow, PageSheet, text_cell
from runner.tables.formatting import short_digests

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
                text_cell(row[1]),
                text_cell(row[0], "bad-text" if compared.regressed else ""),
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
        "a_href": ROOT + site_paths.campaign(a.id),
        "b_href": ROOT + site_paths.campaign(b.id),
        "home": ROOT + site_paths.INDEX,
        "summary": texts.summary,
        "environment": [
            tuple(map(short_digests, fact))
            for fact in comparison.environment
            if fact[0] != NODES or not _hides_nodes(a, b)
        ],
        "table": PageSheet(
            "cells", "Cells of both", columns, rows, interactive=False, most=len(rows)
        ),
        "notes": [*comparison.notes, *texts.below],
    }


def _date(campaign: CampaignPoints) -> str:
    marks = f" ({', '.join(campaign.marks)})" if campaign.marks else ""
    return f"{when(campaign.began)}{marks}"


def _hides_nodes(*campaigns: CampaignPoints) -> bool:
    """Whether one of them does not say which nodes it ran on, but by names of no meaning."""
    return any(campaign.redacted or campaign.imported for campaign in campaigns)
