"""The report's section of a search."""

from pathlib import Path

import pytest

from runner.document.campaign_reading import read_campaign
from runner.folder.campaign import Campaign
from runner.report.page import to_html
from runner.report.search_section import search_section
from runner.tables.tuned_text import text_of
from tests.runner.tuner.pretended import Behaviour, Tuning, steady
from tests.runner.tuner.test_search_on_nodes import plain


def test_the_page_has_the_answer_of_the_search(tmp_path: Path) -> None:
    tuned = Tuning(tmp_path, plain).go()
    document = read_campaign(Campaign(tmp_path / "t-rack"), tmp_path)
    assert document.tuned == tuned
    page = to_html(document)
    assert '<h2 id="search">The search</h2>' in page
    assert "micro_batch_size=8" in page.replace("<wbr>", "").split("fastest: ")[1][:30]
    found = search_section(tuned)
    assert found is not None
    assert len(found["rows"]) == 12
    assert found["race"].count("<title>run ") == len(tuned.runs)
    assert found["commands"][0].startswith("n1: cd ")
    assert "search: " in found["lines"][0]


def test_a_campaign_without_a_search_has_no_section() -> None:
    assert search_section(None) is None


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_words_of_a_run_reach_no_terminal_and_no_markup(tmp_path: Path, form: str) -> None:
    def behave(values: object, number: int) -> Behaviour:
        return steady(1.0, iterations=2, error="<script>\x1b[31mboom\n")

    tuned = Tuning(tmp_path, behave).go()
    assert tuned.winner is None
    text = text_of(tuned, form)  # type: ignore[arg-type]
    assert "no winner: no candidate ended well" in text
    assert "\x1b" not in text
    page = to_html(read_campaign(Campaign(tmp_path / "t-rack"), tmp_path))
    assert "<script>\x1b" not in page
