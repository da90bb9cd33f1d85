"""A site in the browser: filters in its address, no request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.history.sources import sources
from runner.site.site_making import make_site
from tests.pages.conftest import Open
from tests.runner.many_campaigns import nights, stepping

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.nightly("pages", by_day="Chromium is 300 MB")

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
    make_site(sources([runs]), out, log_bytes=1 << 16, report_progress=lambda *_: None)
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
