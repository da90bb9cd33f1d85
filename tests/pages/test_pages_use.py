"""How a page is used by mouse, keyboard and touch: rows, columns, its address, its logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from tests.pages.conftest import Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.nightly("pages", by_day="Chromium is 300 MB")

RATE, STATUS = "samples_per_s", "status"


def head(page: Page, key: str) -> Locator:
    return page.locator(f'#cells th[data-key="{key}"]')


def choice(page: Page, title: str) -> Locator:
    return page.locator(".filters").get_by_label(title, exact=True)


def rows(page: Page) -> Locator:
    return page.locator("#cells > tbody > tr:not(.detail):visible")


def column(page: Page, key: str) -> list[str]:
    """The texts of a column, in the order that a person sees."""
    texts: list[str] = page.evaluate(
        """key => {
          const table = document.getElementById("cells");
          const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.dataset.key === key);
          return [...table.tBodies[0].rows]
            .filter((row) => !row.classList.contains("detail") && !row.hidden)
            .map((row) => row.cells[at].textContent.trim());
        }""",
        key,
    )
    return texts


def numbers(texts: list[str]) -> list[float]:
    return [float(text.strip("†§").replace(",", "")) for text in texts if text != "–"]


def address(page: Page) -> str:
    return unquote(page.url.partition("#")[2])


def test_a_click_sorts_and_a_third_one_restores(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        before = column(page, "cell")
        press = head(page, RATE).locator("button")
        press.click()
        found = column(page, RATE)
        assert numbers(found) == sorted(numbers(found), reverse=True)
        assert found[-1] == "–"
        assert head(page, RATE).get_attribute("aria-sort") == "descending"
        assert address(page) == f"sort=-{RATE}"
        press.click()
        found = column(page, RATE)
        assert numbers(found) == sorted(numbers(found))
        assert found[-1] == "–"  # no result is last, either way
        assert address(page) == f"sort={RATE}"
        press.click()
        assert column(page, "cell") == before
        assert head(page, RATE).get_attribute("aria-sort") is None
        assert address(page) == ""


def test_each_row_keeps_what_it_opens_to_when_sorted(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        page.locator("button.open").nth(3).click()
        head(page, RATE).locator("button").click()
        pairs = page.evaluate(
            """() => [...document.querySelectorAll("#cells > tbody > tr:not(.detail)")]
              .map((row) => [row.id, row.nextElementSibling.id])"""
        )
        assert all(detail == f"of-{row}" for row, detail in pairs)
        assert page.locator("#cells > tbody > tr.detail:visible").count() == 1


@pytest.mark.parametrize("words", ["zero_stage=3", "ZERO_stage=3 micro_batch_size=16", "did_not"])
def test_text_filters_rows(words: str, pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        page.get_by_label("Find in rows").fill(words)
        cells = rows(page)
        assert 0 < cells.count() < 40
        names = [row.get_attribute("data-name") or "" for row in cells.all()]
        for name, text in zip(names, cells.all_text_contents(), strict=True):
            assert all(word.lower() in f"{name} {text}".lower() for word in words.split())
        assert page.locator(".count").text_content() == f"{cells.count()} of 40 rows"
        assert address(page) == f"q={words}"
        page.get_by_role("button", name="Clear filters").click()
        assert rows(page).count() == 40
        assert address(page) == ""


def test_values_of_axes_and_statuses_filter_rows(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        choice(page, "status").select_option("=ok")
        choice(page, "zero stage").select_option("=3")
        assert set(column(page, STATUS)) == {"ok"}
        assert set(column(page, "zero_stage")) == {"3"}
        assert rows(page).count() == 3
        assert set(address(page).split("&")) == {"f.status=ok", "f.zero_stage=3"}
        page.go_back()
        assert rows(page).count() == 34
        page.go_back()
        assert rows(page).count() == 40
        page.go_forward()
        assert set(column(page, STATUS)) == {"ok"}


def test_columns_are_picked_and_those_that_fit_come_by_themselves(
    pages: dict[str, Path], opened: Open
) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        heads = page.locator("#cells th[scope=col]")
        visible = page.locator("#cells th[scope=col]:visible")
        fits = visible.count()
        assert 8 <= fits < heads.count()
        page.locator(".picker > summary").click()
        page.get_by_role("button", name="All columns").click()
        assert visible.count() == heads.count()
        assert "cols=samples_per_s,status," in address(page)
        page.locator(".picker").get_by_label("zero stage").uncheck()
        assert not head(page, "zero_stage").is_visible()
        page.get_by_role("button", name="As many as fit").click()
        assert visible.count() == fits
        page.set_viewport_size({"width": 800, "height": 800})
        assert 2 < visible.count() < fits
        page.set_viewport_size({"width": 1920, "height": 800})
        assert visible.count() > fits
        page.keyboard.press("Escape")
        assert not page.locator(".picker .panel").is_visible()


def test_a_view_is_its_address(pages: dict[str, Path], opened: Open) -> None:
    """Made by hand, and opened anew from the address: the same."""
    with opened(pages["forty"]) as shown:
        page = shown.page
        page.get_by_label("Find in rows").fill("nodes=4")
        choice(page, "zero stage").select_option("=1")
        page.locator(".picker > summary").click()
        page.locator(".picker").get_by_label("final loss").check()
        page.locator(".picker").get_by_label("step time ms").uncheck()
        page.locator(".picker > summary").click()
        head(page, "final_loss").locator("button").click()
        page.locator("button.open:visible").nth(1).click()
        at = f"#{page.url.partition('#')[2]}"
        seen = rows(page).all_text_contents()
        detail = page.locator("tr.detail:visible").get_attribute("id")
    with opened(pages["forty"], at=at) as shown:
        page = shown.page
        assert rows(page).all_text_contents() == seen
        assert page.get_by_label("Find in rows").input_value() == "nodes=4"
        assert page.locator("tr.detail:visible").get_attribute("id") == detail
        assert head(page, "final_loss").get_attribute("aria-sort") == "descending"
        assert not head(page, "step_time_ms").is_visible()
        assert page.locator("tr.detail:visible").evaluate(
            "row => { const top = row.previousElementSibling.getBoundingClientRect().top;"
            " return top >= -1 && top < innerHeight; }"
        )


@pytest.mark.parametrize(
    "at",
    [
        "#sort=-nothing&q=&f.status=&cols=x&open=y",
        "#%&%zz=%&sort=%E0%A4%A&=&q",
        "#__proto__=1&f.__proto__=x&constructor=2",
        "#f.status=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E&q=%3Cscript%3E",
        "#cell-nothing",
        "#open=cells,results",
    ],
)
def test_no_address_breaks_a_page(at: str, pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"], at=at) as shown:
        page = shown.page
        assert head(page, RATE).locator("button").is_visible()
        assert page.locator("tr.detail:visible").count() == 0
        page.get_by_text("Clear filters").evaluate("each => each.click()")
        assert rows(page).count() == 40


def test_a_place_of_the_page_keeps_the_view(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        choice(page, "status").select_option("=ok")
        page.locator(".contents a", has_text="Results").click()
        assert page.url.endswith("#results")
        assert rows(page).count() == 34
        row = rows(page).nth(2).get_attribute("id") or ""
        page.evaluate("id => { location.hash = id; }", row)
        page.wait_for_function("document.querySelector('tr.detail:not([hidden])')")
        assert page.locator("tr.detail:visible").get_attribute("id") == f"of-{row}"


def test_the_keyboard_does_all(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"]) as shown:
        page = shown.page
        page.get_by_label("Find in rows").focus()
        page.keyboard.type("zero_stage=3")
        assert rows(page).count() == 4
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('th[data-key=samples_per_s] *')"):
                break
        page.keyboard.press("Enter")
        assert head(page, RATE).get_attribute("aria-sort") == "descending"
        page.keyboard.press("Space")
        assert head(page, RATE).get_attribute("aria-sort") == "ascending"
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.classList.contains('open')"):
                break
        page.keyboard.press("Enter")
        assert page.locator("tr.detail:visible").count() == 1
        assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Space")
        assert page.locator("tr.detail:visible").count() == 0
        page.locator(".picker > summary").focus()
        page.keyboard.press("Enter")
        assert page.locator(".picker .panel").is_visible()
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.matches('.picker > summary')")


def test_a_finger_does_all(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["forty"], width=390, has_touch=True, is_mobile=True) as shown:
        page = shown.page
        head(page, RATE).locator("button").tap()
        found = column(page, RATE)
        assert numbers(found) == sorted(numbers(found), reverse=True)
        page.locator(".filters > summary").tap()
        choice(page, "status").select_option("=ok")
        page.locator(".picker > summary").tap()
        page.locator(".picker").get_by_label("final loss").tap()
        assert head(page, "final_loss").is_visible()
        page.locator(".picker > summary").tap()
        page.locator("button.open:visible").first.tap()
        assert page.locator("tr.detail:visible").count() == 1
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, .controls summary")]
              .filter((each) => each.offsetParent && each.type !== "checkbox")
              .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
              .filter(([, box]) => box.width < 24 || box.height < 24)
              .map(([text, box]) => `${text} ${box.width} x ${box.height}`)"""
        )
        assert small == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_whole_log_is_shown_and_saved(
    pages: dict[str, Path], opened: Open, tmp_path: Path
) -> None:
    path = pages["failures"]
    with opened(path) as shown:
        page = shown.page
        page.locator("button.open").nth(2).click()
        entry = page.locator("tr.detail:visible li:has(template.log)").first
        name = entry.locator("template").get_attribute("data-name") or ""
        text = (path.parent / name).read_text(encoding="utf-8")
        entry.get_by_role("button", name="Show all of it").click()
        whole = entry.locator("pre.whole")
        whole.wait_for()
        assert whole.text_content() == text
        entry.get_by_role("button", name="Hide it").click()
        assert not whole.is_visible()
        with page.expect_download() as saved:
            entry.get_by_role("button", name="Save").click()
        saved.value.save_as(tmp_path / "log")
        assert (tmp_path / "log").read_text(encoding="utf-8") == text
        assert re.fullmatch(r"[\w.=,+-]+launcher\.log", saved.value.suggested_filename)


def test_a_copied_command_is_what_the_page_shows(pages: dict[str, Path], opened: Open) -> None:
    with opened(pages["failures"]) as shown:
        page = shown.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("button.open").first.click()
        command = page.locator("tr.detail:visible pre.words").first
        page.locator("tr.detail:visible button.copy").first.click()
        page.locator("button.copy", has_text="Copied").wait_for()
        text = page.evaluate("navigator.clipboard.readText()")
        assert text == command.text_content()
        assert "torch.distributed.run" in text


def test_what_a_log_says_is_text_wherever_it_stands(pages: dict[str, Path], opened: Open) -> None:
    """Elements of a log's would run, ask (the harness fails on both) or change the title."""
    with opened(pages["hostile"]) as shown:
        page = shown.page
        title = page.title()
        for press in page.locator("button.open").all():
            press.click()
        shows = page.locator("button[aria-expanded]", has_text="Show all of it")
        for count in range(shows.count()):
            shows.first.click()
            page.locator("pre.whole").nth(count).wait_for()
        texts = page.locator("pre.whole").all_text_contents()
        assert any('<svg onload="document.title=1">' in text for text in texts)
        assert any("<img src=x onerror=alert(1)>" in text for text in texts)
        for text in texts:
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
        page.get_by_label("Find in rows").fill("<img")
        assert page.title() == title
        assert page.locator("img, iframe, object, embed, main script, svg[onload]").count() == 0
        page.wait_for_timeout(300)
