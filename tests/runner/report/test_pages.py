"""Whole pages of campaigns as they come: each status, GPUs; nothing empty, nothing dropped."""

import re
from pathlib import Path

import pytest

from runner.terms.record import NOT_ENDED
from tests.runner.documents import render
from tests.runner.gpu_campaign import gpus
from tests.runner.report.test_report import Page
from tests.runner.status_campaign import WORDS, every_status


@pytest.fixture(scope="module")
def gpu_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return render(gpus(tmp_path_factory.mktemp("gpus")), "html", "zero_stage=0")


def test_each_status_is_there_and_on_the_timeline(tmp_path: Path) -> None:
    records = every_status(tmp_path)
    assert [record.status for record in records] == list(WORDS)
    page = render(records, "html")
    assert Page(page).open == []
    lanes = page[page.index('id="timeline"') : page.index('id="problems"')]
    assert "Outlined: 1 attempt that ran again later." in lanes
    assert "Thin line: queued." in lanes
    assert "3 cells have still to end." in lanes
    for word in WORDS:
        assert word in page
        assert (f"repeat 1: {word}, " in lanes) == (word not in ("ok", "unreadable", *NOT_ENDED))
    assert "repeat 1, attempt 2: ok, " in lanes


def test_a_page_of_gpus_has_power_and_memory_over_time(gpu_page: str) -> None:
    assert Page(gpu_page).open == []
    assert "busy, % over s" not in gpu_page  # all nodes were as busy all the time
    for words in ("power, W over s", "memory, MiB over s"):
        assert gpu_page.count(f'aria-label="{words}, one line per node"') == 12
    assert "14 cells: zero_stage 0, 1, 3; micro_batch_size 8, 32, 64; nodes 1, 2;" in gpu_page
    assert "28 runs" in gpu_page


def test_no_plot_has_empty_axes_and_the_page_is_small(gpu_page: str) -> None:
    drawings = re.findall(r'<svg [^>]*role="img".*?</svg>', gpu_page, re.DOTALL)
    assert len(drawings) > 30
    assert all("<title>" in drawing for drawing in drawings)
    assert len(gpu_page) < 1_000_000
