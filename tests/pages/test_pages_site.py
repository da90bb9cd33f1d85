"""A site in the browser."""

from pathlib import Path

import pytest

from runner.history.sources import sources
from runner.site.site_making import make_site
from tests.pages.conftest import Open
from tests.runner.many_campaigns import nights, stepping

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
    make_site(sources([runs]), out, lambda _: None)
    return out


@pytest.mark.parametrize("width", [1280, 1920, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_kind_of_page_fits_and_asks_for_nothing(
    site: Path, pictures: Path, opened: Open, width: int, scheme: str
) -> None:
    for kind in ("index.html", "campaigns/*.html"):
        path = sorted(site.glob(kind))[-1]
        with opened(path, width, scheme) as page:
            wide = page.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, path
            name = f"site-{kind.split('/')[0].removesuffix('.html')}-{width}-{scheme}.png"
            page.page.screenshot(path=pictures / name, full_page=True)
