"""What a page looks like in a browser: whole at each width, accessible, alone; and on paper."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.terms.record import STATUSES
from tests.pages.conftest import SIZES, Open
from tests.pages.reports import CAMPAIGNS, page_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.nightly("pages", by_day="Chromium is 300 MB")

# What reaches over the window's edge, and text that reaches over its plot's: but for what scrolls.
CLIPPED = """() => {
  const faults = [];
  const scrolls = (element) => {
    for (let at = element; at; at = at.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  for (const element of document.querySelectorAll("main *")) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || element.closest("svg")) continue;
    if (box.right > innerWidth + 1 || box.left < -1) {
      if (!scrolls(element)) faults.push(`over the edge: ${element.outerHTML.slice(0, 120)}`);
    }
    const style = getComputedStyle(element);
    const hides = /hidden|clip/.test(style.overflowX) || /hidden|clip/.test(style.overflowY);
    if (hides && element.scrollWidth > element.clientWidth + 1) {
      faults.push(`cut off: ${element.outerHTML.slice(0, 120)}`);
    }
  }
  for (const plot of document.querySelectorAll("svg[role=img]")) {
    const frame = plot.getBoundingClientRect();
    for (const text of plot.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      const over = Math.max(frame.left - box.left, box.right - frame.right, frame.top - box.top,
        box.bottom - frame.bottom);
      if (over > 3) faults.push(`out of its plot by ${over.toFixed(0)} px: ${text.textContent}`);
    }
  }
  return [...new Set(faults)].slice(0, 20);
}"""


def sees(page: Page) -> list[str]:
    """What axe-core finds wrong with a page."""
    from axe_playwright_python.sync_playwright import Axe

    found: dict[str, Any] = Axe().run(page).response
    return [
        f"{each['id']}: {each['help']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for each in found["violations"]
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_page_is_whole_accessible_and_alone(
    name: str, width: int, scheme: str, pages: dict[str, Path], pictures: Path, opened: Open
) -> None:
    with opened(pages[name], width, scheme) as shown:
        page = shown.page
        room = page.evaluate("document.documentElement.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= room
        assert page.evaluate(CLIPPED) == []
        for table in page.locator(".scroll" if width >= 1280 else ".scroll:has(#cells)").all():
            assert table.evaluate("each => each.scrollWidth - each.clientWidth") <= 1
        page.screenshot(path=pictures / f"{name}-{width}-{scheme}.png", full_page=True)
        assert sees(page) == []
        columns = page.locator(".picker > summary").text_content()
        presses = page.locator("button.open")
        for at in range(min(3, presses.count())):
            presses.nth(at).click()
        assert page.locator(".picker > summary").text_content() == columns
        assert page.evaluate("document.documentElement.scrollWidth") <= room
        assert page.evaluate(CLIPPED) == []
        page.locator("#results").scroll_into_view_if_needed()
        page.screenshot(path=pictures / f"{name}-{width}-{scheme}-open.png", full_page=True)
        assert sees(page) == []


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_page_without_javascript_has_all_of_it(
    name: str, pages: dict[str, Path], pictures: Path, opened: Open
) -> None:
    with opened(pages[name], java_script_enabled=False) as shown:
        page = shown.page
        page.screenshot(path=pictures / f"{name}-plain.png", full_page=True)
        heads = page.locator("#cells th[scope=col]")
        assert all(heads.nth(at).is_visible() for at in range(heads.count()))
        details = page.locator("#cells .detail > td > details")
        assert details.count() == page.locator("#cells > tbody > tr > th[scope=row]").count()
        details.first.locator("> summary").click()
        assert details.first.locator(".verdict, .pill.ok").first.is_visible()
        assert page.locator("button, .controls").count() == 0


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_paper_has_every_column_and_nothing_else_that_opens(
    name: str, pages: dict[str, Path], pictures: Path, opened: Open
) -> None:
    with opened(pages[name]) as shown:
        page = shown.page
        page.locator("button.open").first.click()
        heads = page.locator("#cells th[scope=col]").all_text_contents()
        target = pictures / f"{name}.pdf"
        page.pdf(path=target, prefer_css_page_size=True, print_background=True)
    boxes = subprocess.run(
        ["pdftotext", "-bbox", target, "-"], capture_output=True, text=True, check=True
    ).stdout
    sheets = re.findall(r'<page width="([\d.]+)" height="([\d.]+)">(.*?)</page>', boxes, re.DOTALL)
    for wide, high, words in sheets:
        for left, top, right, bottom in re.findall(
            r'xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)"', words
        ):
            assert float(left) >= 0
            assert float(right) <= float(wide)
            assert float(top) >= 0
            assert float(bottom) <= float(high)
    text = subprocess.run(
        ["pdftotext", "-raw", target, "-"], capture_output=True, text=True, check=True
    ).stdout
    letters = re.sub(r"[\s\u00ad\u2010-]", "", text)
    for head in heads:
        assert re.sub(r"[\s-]", "", head) in letters, head
    assert "Verdict, runs" not in text
    assert "Find in rows" not in text


def test_a_campaign_has_every_status(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["statuses"]) as shown:
        texts = shown.page.locator("#cells > tbody .pill").all_text_contents()
    assert set(texts) == set(STATUSES)


def test_forty_cells_are_below_a_megabyte_without_their_logs(tmp_path: Path) -> None:
    assert page_of("forty", tmp_path, logs_mib=0).stat().st_size < 1_000_000
