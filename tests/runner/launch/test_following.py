"""`status --watch`: what has ended, in the lines of bench, and how it goes on, until its end."""

import io
import re
import threading
from pathlib import Path

import pytest

from runner.base.console import Screen
from runner.folder import events
from runner.folder.campaign import Campaign
from runner.folder.events import RUN_ENDED, Event
from runner.launch import following, screen
from runner.launch.following import follow
from tests.on_nodes.campaign import wait
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write


def ended(cell: str) -> Event:
    return Event(event=RUN_ENDED, at=1.8e9, campaign="m", cell=cell, status="ok",
                 samples_per_s=189.0, first_loss=7.0, last_loss=4.0)  # fmt: skip


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setattr(following, "LOOK_S", 0.01)
    monkeypatch.setattr(screen, "LIVE_S", 0.01)
    matrix = small_matrix({"seed": [1, 2]})
    stories = iter([Story({0: torch_gpt(9)})])
    return write(tmp_path, matrix, small_cluster(1), lambda *_: next(stories, None))


@pytest.mark.parametrize("terminal", [False, True])
def test_it_tells_what_ends_meanwhile_and_ends_with_the_bench(
    campaign: Campaign, terminal: bool
) -> None:
    out = io.StringIO()
    console = Screen(file=out, force_terminal=terminal, width=80, height=24)
    for number in range(13):
        events.add(campaign.path, ended(f"early{number}"))
    with campaign.locked():
        watcher = threading.Thread(target=follow, args=(campaign, console))
        watcher.start()
        wait(lambda: "early12" in out.getvalue(), 10, "what had ended")
        events.add(campaign.path, ended("late\x1b[2J"))
        wait(lambda: "late" in out.getvalue(), 10, "what ends now")
        assert watcher.is_alive()
    watcher.join(10)
    assert not watcher.is_alive()
    text = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert "3 runs ended before" in text
    assert "early2:" not in text
    assert "early3: ok, 189.0 samples/s, loss 7.000 to 4.000" in text
    assert "\x1b[2Jlate" not in text
    if terminal:
        assert "1 of 2 ended" in text
        assert "next: seed=2" in text


def test_a_campaign_that_nobody_runs_is_told_at_once(campaign: Campaign) -> None:
    status = follow(campaign, Screen(file=io.StringIO()))
    assert (status.live, status.next) == (False, ("seed=2",))
