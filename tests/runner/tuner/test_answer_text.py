"""The answer of a search as text."""

from pathlib import Path

import pytest

from runner.tables.tuned_text import text_of
from tests.runner.tuner.pretended import Behaviour, Tuning, steady


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_words_of_a_run_reach_no_terminal_and_no_markup(tmp_path: Path, form: str) -> None:
    def behave(values: object, number: int) -> Behaviour:
        return steady(1.0, iterations=2, error="<script>\x1b[31mboom\n")

    tuned = Tuning(tmp_path, behave).go()
    assert tuned.winner is None
    text = text_of(tuned, form)  # type: ignore[arg-type]
    assert "no winner: no candidate ended well" in text
    assert "\x1b" not in text
