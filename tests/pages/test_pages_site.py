"""A site in the browser: filters in its address, two campaigns that a person picks, no request."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.compare.verdicts import Side, compare_campaigns
from runner.history.cell_points import CampaignPoints
from runner.history.reading import read_all
from runner.history.series import THRESHOLDS
from runner.history.sources import sources
from runner.site.site_making import make_site, write_pages
from runner.site.whole import WholeSite
from tests.pages.conftest import Open
from tests.runner.many_campaigns import nights, stepping

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.pages

TAGS = "<script>alert(1)</script><img src=x onerror=alert(1)></pre></script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven nights of three cells: one slows down, one fails one night; logs end in tags."""
    folder = tmp_path_factory.mktemp("runs")
    nights(
        folder,
        7,
        stepping(4, -10, lambda cell: cell.parameters["zero_stage"] == 1, sigma=2),
        axes={"zero_stage": [0, 1, 2]},
        fails=lambda night, cell: night == 2 and cell.parameters["zero_stage"] == 2,
        kernel=lambda night: f"Linux 6.{night // 4}.0",
        then=f"{TAGS}\n",
    )
    return folder


@pytest.fixture(scope="module")
def site(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "out"
    make_site(sources([runs]), out, log_bytes=1 << 16, told=lambda *_: None)
    return out


def shown(page: Page, table: str) -> int:
    return int(page.locator(f"#{table} > tbody > tr:visible").count())


@pytest.mark.parametrize("width", [1280, 1920, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_of_page_fits_and_asks_for_nothing(
    site: Path, pictures: Path, opened: Open, width: int, scheme: str
) -> None:
    kinds = (
        "index.html",
        "compare.html",
        "cells/*.html",
        "comparisons/*.html",
        "campaigns/*/*.html",
    )
    for kind in kinds:
        path = sorted(site.glob(kind))[-1]
        with opened(path, width, scheme) as page:
            wide = page.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, path
            name = f"site-{kind.split('/')[0].removesuffix('.html')}-{width}-{scheme}.png"
            page.page.screenshot(path=pictures / name, full_page=True)


def test_a_view_of_the_points_is_an_address(site: Path, opened: Open) -> None:
    with opened(site / "index.html") as page:
        assert shown(page.page, "cells") == 21
        labels = page.page.locator("section:has(#cells) .filters")
        labels.get_by_label("status", exact=True).select_option("=failed")
        assert shown(page.page, "cells") == 1
        at = page.page.url.partition("#")[2]
    assert "cells.f.status=failed" in at
    with opened(site / "index.html", at=f"#{at}") as page:
        assert shown(page.page, "cells") == 1
        assert "CUDA out of memory" in page.page.locator("#cells > tbody > tr:visible").inner_text()


def verdicts(page: Page) -> dict[str, str]:
    rows = page.locator("#compared > tbody > tr").all()
    return {row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in rows}


def side(campaign: CampaignPoints) -> Side:
    rows = [point.row for point in campaign.points]
    return Side(campaign.name, rows, campaign.environment, campaign.live)


@pytest.fixture(scope="module")
def campaigns(runs: Path) -> list[CampaignPoints]:
    return read_all(sources([runs]))[0]


def test_any_two_campaigns_have_the_verdicts_of_compare(
    site: Path, campaigns: list[CampaignPoints], opened: Open
) -> None:
    for a, b in permutations(campaigns, 2):
        expected = compare_campaigns(side(a), side(b), THRESHOLDS)
        with opened(site / "compare.html", at=f"#a={a.id}&b={b.id}") as page:
            assert verdicts(page.page) == {cell.name: cell.verdict for cell in expected.cells}
            changed = page.page.locator("#changed th").all_inner_texts()
            assert changed == [key for key, _, _ in expected.environment]


STATES = [
    ("ok", "ok runs", 100.0),
    ("ok", "ok runs", 70.0),
    ("failed", "ok runs", 100.0),
    ("failed", "none", None),
    ("pending", "none", None),
    ("pending", "ok runs", 100.0),
    ("running", "none", None),
]


def in_state(campaign: CampaignPoints, at: int, *, live: bool) -> CampaignPoints:
    """The campaign, its second cell in a state, its third not there for the last of them."""
    first, second, third = campaign.points
    points = [first, third] if at == len(STATES) else [first, second, third]
    if at < len(STATES):
        status, basis, rate = STATES[at]
        values = {"status": status, "numbers_from": basis, "samples_per_s": rate}
        if rate is None:
            values |= dict.fromkeys(THRESHOLDS)
        points[1] = replace(second, row={**second.row, **values})
    name = f"{campaign.id}-{at}-{live}"
    return replace(campaign, id=name, name=name, points=tuple(points), live=live)


def test_each_state_of_a_cell_has_the_verdict_of_compare(
    campaigns: list[CampaignPoints], tmp_path: Path, opened: Open
) -> None:
    states = range(len(STATES) + 1)
    before = [in_state(campaigns[0], at, live=False) for at in states]
    after = [in_state(campaigns[1], at, live=live) for at in states for live in (False, True)]
    write_pages(WholeSite([*before, *after], []), tmp_path, "", lambda *_: None)
    wrong = []
    with opened(tmp_path / "compare.html") as page:
        for a, b in product(before, after):
            expected = compare_campaigns(side(a), side(b), THRESHOLDS)
            page.page.get_by_label("First").select_option(index=before.index(a))
            page.page.get_by_label("Then").select_option(index=len(before) + after.index(b))
            found = verdicts(page.page)
            if found != {cell.name: cell.verdict for cell in expected.cells}:
                wrong.append((a.name, b.name, found, expected.cells))
    assert not wrong, wrong[:3]


def test_two_are_picked_by_hand_and_swapped(
    site: Path, campaigns: list[CampaignPoints], opened: Open
) -> None:
    with opened(site / "compare.html") as page:
        page.page.get_by_label("First").select_option(index=0)
        page.page.get_by_label("Then").select_option(index=6)
        assert verdicts(page.page)["zero_stage=1"] == "slower"
        page.page.get_by_role("button", name="Swap").click()
        assert verdicts(page.page)["zero_stage=1"] == "faster"
        assert page.page.url.endswith(f"#a={campaigns[6].id}&b={campaigns[0].id}")


def test_a_log_opens_as_text(site: Path, opened: Open) -> None:
    log = next(path for path in site.rglob("node0.txt") if TAGS in path.read_text())
    with opened(log) as page:
        assert TAGS in page.page.locator("pre").inner_text()
        assert page.page.locator("script, img").count() == 0


def test_without_javascript_every_point_is_there(site: Path, opened: Open) -> None:
    with opened(site / "index.html", java_script_enabled=False) as page:
        assert shown(page.page, "cells") == 21
    document = json.loads((site / "data/points.json").read_text())
    assert len(document["points"]) == 21
