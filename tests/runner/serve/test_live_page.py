"""The report as it is served: by the same code that writes the file, in a process of its own."""

import base64
import hashlib
import re
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from runner.base.errors import UserError
from runner.folder import events
from runner.folder.events import Event
from runner.serve.live_page import live_page, waiting
from runner.serve.written import stamp, written
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write


def campaign(runs: Path) -> Path:
    matrix = small_matrix({"zero_stage": [0, 1]}, {"nodes": 2}, warmup_iters=2)
    told = {0: Story({0: torch_gpt(20)})}
    return write(
        runs, matrix, small_cluster(), lambda cell, _: told.get(cell.parameters["zero_stage"])
    ).path


@pytest.mark.parametrize("page", ["report", "waiting"])
def test_the_policy_allows_the_pages_scripts_and_no_other(page: str, tmp_path: Path) -> None:
    text = waiting("m") if page == "waiting" else written(campaign(tmp_path), 7).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    assert scripts
    sums = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts}
    assert set(re.findall(r"'sha256-([^']*)'", policy[1])) == sums
    assert '<noscript><meta http-equiv="refresh"' in text
    assert ('data-live="7"' if page == "report" else 'data-live="0"') in text


def test_the_report_is_the_one_of_collect_and_its_links_are_answered(tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    with live_page(folder, 0, lambda: "half way") as live:
        address = live.words[0].split()[-1]
        text = written(folder, 1).decode()
        links = re.findall(r'class="figure" href="([^"]*)"', text)
        assert links
        with urllib.request.urlopen(address + links[0]) as answer:  # our own
            assert b"torch_gpt step=1/20" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address[:-3] + "xx/")


def test_what_ran_has_its_command_and_the_end_of_its_log(tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    text = written(folder, 1).decode()
    assert text.count("No command: it has not run.") == 1  # the pending cell's
    assert text.count("<h3>Last lines of the log:") == 1
    with live_page(folder, 0, str) as live:
        address = live.words[0].split()[-1]
        (script,) = re.findall(r'href="([^"]*/launch\.sh)"', text)
        with urllib.request.urlopen(address + script) as answer:  # our own
            assert answer.read().startswith(b"#!")


def test_who_comes_from_another_machine_is_told_how(tmp_path: Path) -> None:
    with live_page(tmp_path / "m-rack", 0, str) as live:
        first, second = live.words
        port = re.search(r":(\d+)/", first)
        assert port is not None
        assert f"ssh -L {port[1]}:127.0.0.1:{port[1]} " in second


def test_an_event_makes_another_page_due(tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    before = stamp(folder)
    assert stamp(folder) == before
    events.add(folder, Event(event=events.CAMPAIGN_ENDED, at=1.0, campaign="m-rack"))
    assert stamp(folder) != before
    assert stamp(tmp_path / "none") == (None, None)


def test_a_folder_without_a_campaign_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no campaign\.json"):
        written(tmp_path, 1)


def test_one_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*argv: object, **more: object) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(UserError, match="took more than"):
        written(tmp_path, 1)
