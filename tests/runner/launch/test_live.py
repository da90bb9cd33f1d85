"""What is shown of a run that goes on: the newest step, memory, time left; terminal and plain."""

import io
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import events
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.folder.events import Event
from runner.launch import screen, status, view
from runner.launch.campaign_status import Running, lasting
from runner.launch.live import DeviceUse, device_use, left_s, now_of
from runner.launch.screen import live
from runner.launch.view import View, running_of
from runner.terms.outcome import Outcome
from runner.terms.record import Measurement
from tests.on_nodes.campaign import wait
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, sampled, torch_gpt, write

STAMPS = "timestamp, utilization.cpu [%], memory.used [MiB], memory.total [MiB]\n"

CELL = small_matrix().cells[0]


@pytest.mark.parametrize(
    ("times", "waiting", "now_left", "elapsed", "left"),
    [
        ([10.0, 20.0, 90.0], 3, 5.0, 7.0, 65.0),
        ([10.0, 20.0, 90.0], 3, None, 7.0, 73.0),
        ([10.0], 2, None, 30.0, 20.0),  # it lasts longer than usual
        ([], 2, 5.0, 15.0, 45.0),
        ([], 2, None, 15.0, None),
        ([], 0, 5.0, 15.0, 5.0),
    ],
)
def test_the_time_to_a_campaigns_end(
    times: list[float], waiting: int, now_left: float | None, elapsed: float, left: float | None
) -> None:
    assert left_s(times, waiting, [(now_left, elapsed)]) == left


def test_memory_is_the_fullest_devices_at_the_newest_samples(tmp_path: Path) -> None:
    """The header stands at the beginning only; what is read is that and the end."""
    path = tmp_path / "samples.csv"
    assert device_use(path, []) == DeviceUse()
    header = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]\n"
    rows = [
        f"2026/11/21 10:{n // 60:02d}:{n % 60:02d}.000, {d}, 9 %, {900 - n // 10 + 100 * d} MiB,"
        f" {d}00.5 W\n"
        for n in range(3000)
        for d in range(2)
    ]
    path.write_text(header + "".join(rows) + "2026/11/21 11:00")
    assert path.stat().st_size > 100_000
    assert device_use(path, []) == DeviceUse(701.0, 101.0)
    assert device_use(path, [0]) == DeviceUse(601.0, 0.5)
    path.write_text(STAMPS + "1790000000.000, 7 %, 12000 MiB, 64000 MiB\n")
    assert device_use(path, []) == DeviceUse()  # a node's own memory is not the run's


@pytest.fixture
def running(tmp_path: Path) -> Callable[..., tuple[Campaign, Attempt]]:
    """A campaign of four cells: one is over after 40 s, one runs, two wait."""

    def make(samples: Mapping[int, str] | None = None) -> tuple[Campaign, Attempt]:
        matrix = small_matrix({"seed": [1, 2, 3, 4]}, {"train_iters": 60, "nodes": 2})
        logs = {0: torch_gpt(30, of=60, rate=160.0, noise=lambda _: 0.0)}
        ends = iter([Story(logs, wall_s=40.0), Story(logs, samples=samples or {})])
        campaign = write(tmp_path, matrix, small_cluster(), lambda cell, repeat: next(ends, None))
        attempt = campaign.attempts(matrix.cells[1].id, 1)[-1]
        (attempt.path / "outcome.json").unlink()
        return campaign, attempt

    return make


def test_a_run_that_goes_on(running: Callable[..., tuple[Campaign, Attempt]]) -> None:
    _, attempt = running()
    now = now_of(CELL, attempt, 60)
    assert now.step is not None
    assert now.step.iteration == 30
    assert (now.memory_used_mib, now.memory_rss_mib) == (1000.0, None)  # by the log
    assert now.left_s == pytest.approx(3.0)
    assert now.tokens_per_s == 160.0 * 128  # of gpt2-tiny's sequences
    assert now.power_w is None
    cell = replace(CELL, parameters={**CELL.parameters, "train_iters": 60})
    assert running_of("", cell, attempt, 14.0).words == (
        "iteration 30/60, 160.0 samples/s, loss 3.500, 1000 MiB, 14 s, about 3 s left"
    )
    (attempt.path / "nodes" / "0000-n1" / "launcher.log").write_text("")
    assert running_of("", cell, attempt, 2.0).words == "starting, 2 s"


def test_samples_of_devices_win_over_what_the_log_says(
    running: Callable[..., tuple[Campaign, Attempt]],
) -> None:
    _, attempt = running({0: sampled(90), 1: sampled(90).replace("21000", "23000")})
    assert now_of(CELL, attempt, 60).memory_used_mib == 23000.0


@pytest.mark.parametrize("terminal", [False, True])
def test_the_view_tells_step_memory_and_the_time_left(
    running: Callable[..., tuple[Campaign, Attempt]],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
) -> None:
    """In a terminal one line that is written over, elsewhere a line from time to time."""
    monkeypatch.setattr(screen, "PLAIN_S" if not terminal else "LIVE_S", 0.01)
    campaign, attempt = running()
    cells = small_matrix({"seed": [1, 2, 3, 4]}, {"train_iters": 60, "nodes": 2}).cells
    out = io.StringIO()
    shown = View(Screen(file=out, force_terminal=terminal, width=200))
    shown.begin(campaign, 4, "", {(cells[0].id, 1): Outcome("ok", "", "", wall_s=40)})
    for _ in range(2):  # a second attempt is no further repeat
        with shown.running(cells[1], 1, attempt):
            wait(lambda: "left" in out.getvalue(), 10, "a line")
    text = out.getvalue()
    if terminal:
        shown_lines = ("30/60  160.0 samples/s  loss 3.500  1000 MiB", " s, about 3 s left")
        assert all(words in text for words in (*shown_lines, "1 of 4 ended, about 83 s left"))
    else:
        assert "[2/4] seed=2: iteration 30/60, 160.0 samples/s, loss 3.500, 1000 MiB, " in text
        assert "about 3 s left, campaign about 83 s left" in text  # 2 of 40 s, and 3 s
    assert "[3/4]" not in text


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_run_says_does_nothing_to_the_terminal(
    running: Callable[..., tuple[Campaign, Attempt]],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
) -> None:
    """Names, reasons and what could not be read: each in its line, without what is obeyed."""
    monkeypatch.setattr(screen, "PLAIN_S" if not terminal else "LIVE_S", 0.01)
    obeyed = "\x1b]0;x\x07\x1b[2J\x9b2J\u202e\r\nFORGED [red]"
    campaign, attempt = running()
    cell = replace(small_matrix(defaults={"nodes": 2}).cells[0], name=f"c{obeyed}")
    out = io.StringIO()
    shown = View(Screen(file=out, force_terminal=terminal, width=300, soft_wrap=True))
    shown.begin(campaign, 1, "", {})

    def fails(*_: object) -> str:
        raise ValueError(obeyed)

    hostile = Running("c", 1, 1, 1.0, "", (f"host {obeyed}",), title=f"step {obeyed}")
    for words in (lambda *_: hostile, fails):
        monkeypatch.setattr(view, "running_of", words)
        before = out.tell()
        with shown.running(cell, 1, attempt):
            wait(lambda place=before: out.tell() > place + 40, 10, "a line")  # type: ignore[misc]
    shown.ended(cell, 1, attempt, Outcome("failed", "", f"n1: {obeyed}"), Measurement())
    text = re.sub(r"\x1b\[(\d+(;\d+)*m|[12]?[AKG]|\d+B|\?25[lh])|\r", "", out.getvalue())
    assert all(line.isprintable() for line in text.split("\n")), ascii(text)
    assert not any(line.startswith("FORGED") for line in text.split("\n"))
    assert "how far it is cannot be read: " in text
    assert "[red]" in text


def test_status_from_another_terminal_tells_the_same(
    running: Callable[..., tuple[Campaign, Attempt]],
) -> None:
    campaign, attempt = running()
    with campaign.locked():
        assert status.look(campaign).running is None  # a bench that was killed left it
        os.utime(attempt.path / "run.json")
        found = status.look(campaign)
    assert found.left_s == pytest.approx(83.0)
    assert found.running is not None
    assert found.running.memory_used_mib == 1000.0
    assert (found.running.iteration, found.running.train_iters) == (30, 60)
    assert "campaign: about 83 s left" in found.words()
    assert status.look(campaign).left_s is None  # nobody runs it


def test_a_campaign_goes_on_when_nobody_reads_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(sys, "stderr", os.fdopen(write, "w"))
    shown = View()
    for _ in range(2):
        shown.console.print("one more line")
    with live(shown.console, lambda _: "and one in a thread"):
        pass
    assert sys.stderr.name == os.devnull


def test_long_times_are_told_in_minutes() -> None:
    assert (lasting(119.0), lasting(120.0)) == ("about 119 s left", "about 2 min left")


def test_a_look_that_fails_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 12, point 4: the thread of the live view died with a traceback."""

    def broken(*_: object) -> None:
        raise ValueError("what nobody thought of")

    campaign = write(
        tmp_path, small_matrix(), small_cluster(1), lambda *_: Story({0: torch_gpt(9)})
    )
    (attempt,) = campaign.attempts(small_matrix().cells[0].id, 1)
    assert now_of(CELL, attempt, 50).step is not None
    monkeypatch.setattr("runner.launch.live.latest", broken)
    assert now_of(CELL, attempt, 50).step is None


def test_a_bench_that_breaks_off_tells_so_where_it_had_begun(
    running: Callable[..., tuple[Campaign, Attempt]],
) -> None:
    told: list[Event] = []
    shown = View(Screen(file=io.StringIO()), told.append)
    shown.broken_off(ValueError("nothing had begun"))
    assert told == []
    campaign, _ = running()
    shown.begin(campaign, 4, "", {("a", 1): Outcome("ok", "", "", wall_s=40)})
    shown.broken_off(UserError("n2 cannot be used: no answer"))
    begun, ended = told
    assert (begun.event, begun.runs, begun.kept) == ("campaign_begun", 4, 1)
    assert (ended.event, ended.ok, ended.not_ok) == ("campaign_ended", 1, 0)
    assert ended.reason == "it ended early: n2 cannot be used: no answer"
    assert events.events(campaign.path) == told


def test_a_disk_without_room_for_events_ends_no_campaign(
    running: Callable[..., tuple[Campaign, Attempt]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out, told = io.StringIO(), list[Event]()
    monkeypatch.setattr(events, "add", full)
    View(Screen(file=out), told.append).begin(running()[0], 4, "", {})
    assert "events.jsonl cannot be written: No space left on device" in out.getvalue()
    assert len(told) == 1
