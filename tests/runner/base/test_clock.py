"""One rule for dates: a run has the same day in tables, pages and lists, wherever it is read."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.archive.bundle import _day as day_of_bundle
from runner.base.clock import day, minute, second
from runner.compare.regressions import when
from runner.folder.queued import Queued
from runner.results.records import records_of
from runner.tables.build import measured
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import render

BEGAN = 1_790_000_000.0  # 14:13 in UTC, of which the next day's morning is 14 hours ahead


@pytest.fixture(autouse=True)
def _far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-14")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_times_are_written_in_utc() -> None:
    assert (day(BEGAN), minute(BEGAN), second(BEGAN)) == (
        *("2026-09-21", "2026-09-21 14:13"),
        "14:13:20",
    )
    assert minute(BEGAN + 60, since=BEGAN) == "14:14"
    assert minute(BEGAN + 86_400, since=BEGAN) == "2026-09-22 14:13"
    assert Queued("PENDING", "", 3, 1_890_000_000.0).words().endswith(" UTC")


def test_a_run_has_one_day(tmp_path: Path) -> None:
    """Tables and reports said the reader's day, history and sites that in UTC."""
    campaign = write(
        tmp_path,
        small_matrix(defaults={"train_iters": 20}),
        small_cluster(1, 1),
        lambda cell, repeat: Story({0: torch_gpt(20)}),
    )
    (record,) = records_of(campaign, tmp_path)
    assert record.began == BEGAN
    page = render([record], "html")
    assert {record.date, when(record.began)[:10], day_of_bundle(measured([record])[0])} == {
        "2026-09-21"
    }
    assert "2026-09-21 14:13 to 14:" in page
    assert "UTC" in page
    assert "2026-09-22" not in page
