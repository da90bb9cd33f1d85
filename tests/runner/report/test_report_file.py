"""The report that is rewritten while bench runs."""

import os
import time
from pathlib import Path

import pytest

from runner.folder.campaign import Campaign
from runner.report import report_file
from runner.report.report_file import LOW_PRIORITY, ReportFile
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2}, name="m")
    return write(tmp_path, matrix, small_cluster(), lambda *_: Story({0: torch_gpt(20)}))


def test_it_says_how_far_the_campaign_is_until_the_last_one(
    campaign: Campaign, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    page = ReportFile(target, campaign)
    assert not target.exists()
    page.changed()
    end = time.monotonic() + 280
    while not target.exists() and time.monotonic() < end:
        time.sleep(0.05)
    text = target.read_text()
    assert "2 of 2 ended This page reloads" in text
    assert 'http-equiv="refresh"' in text
    page.finish()
    text = target.read_text()
    assert "zero_stage=1" in text
    assert 'http-equiv="refresh"' not in text


def test_the_last_page_has_the_priority_of_bench(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A low one waits for minutes on a machine that others keep busy; only root may raise it."""
    priorities: list[int] = []

    def page_of(_campaign: Campaign, _base: Path, live: str) -> str:
        priorities.append(os.getpriority(os.PRIO_PROCESS, 0))
        return live

    monkeypatch.setattr(report_file, "page_of", page_of)
    page = ReportFile(tmp_path / "report.html", campaign)
    page.changed()
    end = time.monotonic() + 280
    while not priorities and time.monotonic() < end:
        time.sleep(0.05)
    page.finish()
    here = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities[0] == max(here, LOW_PRIORITY)
    assert priorities[-1] == (here if os.geteuid() == 0 else priorities[0])


def test_a_campaign_that_never_began_leaves_no_file(tmp_path: Path) -> None:
    page = ReportFile(tmp_path / "report.html", Campaign(tmp_path / "none"))
    page.changed()
    page.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_made_is_one_line(
    campaign: Campaign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object) -> str:
        raise ValueError("no\nfigures")

    monkeypatch.setattr(report_file, "page_of", broken)
    page = ReportFile(tmp_path / "report.html", campaign)
    page.finish()
    assert capsys.readouterr().err.count("was not written: no") == 1
