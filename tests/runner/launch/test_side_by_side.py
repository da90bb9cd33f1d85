"""Runs side by side, through an engine with a queue: the order, followers, Ctrl-C, what fails.

The engine is a fake at the protocol: it writes what a queue and its nodes would leave in the run's
folder. Everything else is real; real queues are in tests/on_slurm.
"""

import io
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.lock import HeldFolder
from runner.folder.queued import Queued
from runner.folder.stored import write_json
from runner.launch import screen, status
from runner.launch.bench import Tally, bench
from runner.launch.campaign_status import Status
from runner.launch.interrupts import Interrupts
from runner.launch.view import View
from runner.plan import script
from runner.results.records import records_of
from runner.terms import run as runs
from runner.terms.orders import Orders
from tests.on_nodes.campaign import wait
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.launch.test_campaign import OK, Ending, Nodes, outcomes

MATRIX = small_matrix({"zero_stage": [0, 1, 2, 3], "seed": [1]}, repeats=2)


class Queue(Nodes):
    """An engine with a queue of `at_once`: a run is handed over, and ends when `ends` has its cell.

    `ends` maps a run (`zero_stage=1 r2a1`) to how it ends; `raises` to what goes wrong here.
    """

    def __init__(self, at_once: int = 5) -> None:
        super().__init__()
        self.at_once = at_once
        self.order: list[str] = []  # as they were handed over
        self.followed: list[str] = []
        self.halted: list[str] = []
        self.ends: dict[str, Ending] = {}
        self.raises: dict[str, Exception] = {}
        self.hold: Callable[[str], bool] = lambda _: False
        self.deaf = False  # to a halt
        self.most = self.now = 0
        self.lock = threading.Lock()

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        cell, attempt = orders.run_id.split("/")[1:]
        name = f"{cell.partition(',')[0]} {attempt}"
        if self.goes_on(run):
            self.followed.append(name)
        else:
            self.order.append(name)
            write_json(run.path / names.SUBMITTED, {"job_id": str(len(self.order))})
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            while self.hold(name) and (self.deaf or run.halt is None):
                if cancelled():
                    return "scancel 17 ends it"
                time.sleep(0.005)
            if cancelled():
                return "scancel 17 ends it"
            if name in self.raises:
                raise self.raises[name]
            if run.halt is not None:
                self.halted.append(name)
            with self.lock:
                self.endings = [self.ends.get(name, OK if run.halt is None else {"steps": 3})]
                return super().run(folder, run, orders, cancelled)
        finally:
            with self.lock:
                self.now -= 1

    def by_hand(self, run: runs.Run) -> tuple[str, str]:
        return names.SCRIPT, script.launch_script(run)

    def goes_on(self, run: RunFolder) -> bool:
        return (run.path / names.SUBMITTED).exists()

    def waiting(self, run: RunFolder) -> str:
        return run.queued.words() if run.queued else ""


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


def go(queue: Queue, runs: Path, shown: io.StringIO, **more: object) -> Tally:
    view = View(Screen(file=shown, width=200))
    return bench(MATRIX, small_cluster(), runs, engine=queue, view=view, **more)  # type: ignore[arg-type]


ALL = [f"zero_stage={stage} r{repeat}a1" for repeat in (1, 2) for stage in range(4)]


def test_runs_go_on_side_by_side_and_are_handed_over_in_order(
    tmp_path: Path, shown: io.StringIO
) -> None:
    """Five go on at once; the first ends after all others, the second before."""
    queue = Queue(5)
    queue.hold = lambda name: name == ALL[0] and len(queue.plays) < 7
    tally = go(queue, tmp_path, shown)
    assert (tally.ok, tally.failed, tally.exit_code) == (8, 0, 0)
    assert queue.order == ALL
    assert queue.attempts[-1] == f"{ALL[0].split()[0]},seed=1 r1a1"
    assert 2 <= queue.most <= 5
    assert sorted(outcomes(tmp_path).values()) == ["ok"] * 8
    assert (
        "[1/8] zero_stage=0,seed=1: ok, 10.0 samples/s, loss 5.000 to 5.000, 50 it"
        in shown.getvalue()
    )


def test_one_that_raises_loses_none_of_the_others(tmp_path: Path, shown: io.StringIO) -> None:
    """The others end and are recorded; no further run begins; the next bench follows that one."""
    queue = Queue(3)
    queue.raises[ALL[1]] = UserError("the folder is full")
    queue.hold = lambda name: (
        len(queue.order) < 3 if name == ALL[1] else "is full" not in shown.getvalue()
    )
    with pytest.raises(UserError, match="the folder is full"):
        go(queue, tmp_path, shown)
    assert queue.order == ALL[:3]
    assert len(outcomes(tmp_path)) == 2
    assert "the folder is full; running cells are followed to their end" in shown.getvalue()
    queue.raises, queue.hold = {}, lambda _: False
    assert go(queue, tmp_path, shown).exit_code == 0
    assert (queue.followed, queue.order) == ([ALL[1]], ALL)
    assert len(outcomes(tmp_path)) == 8


def test_one_that_fails_is_retried_while_the_others_go_on(
    tmp_path: Path, shown: io.StringIO
) -> None:
    queue = Queue(4)
    queue.ends = {ALL[2]: {"steps": 3, "halt": {"cause": "exit", "message": "n1: exit code 1"}}}
    assert go(queue, tmp_path, shown, retry=1).exit_code == 0
    assert sorted(queue.order) == sorted([*ALL, "zero_stage=2 r1a2"])


def test_ctrl_c_once_ends_all_that_run_and_begins_no_more(
    tmp_path: Path, shown: io.StringIO
) -> None:
    queue = Queue(3)
    queue.hold = lambda _: True
    queue.before_inspect = lambda: threading.Thread(target=interrupt, args=(queue, 3, 1)).start()
    tally = go(queue, tmp_path, shown)
    assert (tally.interrupted, tally.exit_code) == (True, 130)
    assert sorted(queue.halted) == sorted(queue.order) == sorted(ALL[:3])
    assert sorted(outcomes(tmp_path).values()) == ["interrupted"] * 3
    queue.hold = lambda _: False
    queue.before_inspect = lambda: None
    assert go(queue, tmp_path, shown).exit_code == 0
    assert queue.followed == []
    assert queue.order[3:6] == [name.replace("a1", "a2") for name in ALL[:3]]


def test_ctrl_c_twice_leaves_what_runs_and_the_next_bench_follows_it(
    tmp_path: Path, shown: io.StringIO
) -> None:
    """The next bench sees them end, as they were asked to, and makes them again."""
    queue = Queue(3)
    queue.hold, queue.deaf = lambda _: True, True
    queue.before_inspect = lambda: threading.Thread(target=interrupt, args=(queue, 3, 2)).start()
    assert go(queue, tmp_path, shown).exit_code == 130
    assert queue.order == ALL[:3]
    assert outcomes(tmp_path) == {}
    assert shown.getvalue().count("the same command follows it; scancel 17 ends it") == 3
    queue.hold = lambda _: False
    queue.before_inspect = lambda: None
    assert go(queue, tmp_path, shown).exit_code == 0
    assert sorted(queue.followed) == ALL[:3]
    assert sorted(queue.order) == sorted([*ALL, *(name.replace("a1", "a2") for name in ALL[:3])])


def interrupt(queue: Queue, running: int, times: int) -> None:
    """Send Ctrl-C so often, at once, when so many are running."""
    wait(lambda: len(queue.order) == running, 10, "runs")
    interrupts = signal.getsignal(signal.SIGINT)
    assert isinstance(interrupts, Interrupts)
    for heard in (interrupts.once, interrupts.twice)[:times]:  # two at one instant are one
        os.kill(os.getpid(), signal.SIGINT)
        wait(heard, 10, "Ctrl-C")


@pytest.mark.parametrize("again", [False, True])
def test_what_a_killed_bench_handed_over_is_followed_first_and_never_made_twice(
    tmp_path: Path, shown: io.StringIO, again: bool
) -> None:
    """Killed in three states: over and not judged, going on, planned and not handed over."""
    go(Queue(), tmp_path, shown)
    campaign = Campaign(tmp_path / "m-rack")
    over, going, planned = (campaign.attempts(cell.id, 2)[0] for cell in MATRIX.cells[1:])
    for attempt in (over, going, planned):
        (attempt.path / names.OUTCOME).unlink()
    for attempt in (going, planned):
        (attempt.path / "nodes").rename(tmp_path / f"gone-{attempt.cell_id}")
    (planned.path / names.SUBMITTED).unlink()
    (over.path / names.ENDED).touch()
    assert [run.cell_id for run in campaign.running()] == [going.cell_id]
    found = status.look(campaign)
    assert not found.live
    assert "the same bench command follows what runs and waits" in found.words()
    assert [r.status for r in records_of(campaign, tmp_path)].count("running") == 1

    queue = Queue(1)
    run = Nodes.run

    def end(_: Queue, folder: HeldFolder, place: RunFolder, *rest: object) -> str:
        return "" if (place.path / "nodes").exists() else run(queue, folder, place, *rest)  # type: ignore[arg-type]

    Nodes.run = end  # type: ignore[method-assign, assignment]
    try:
        assert go(queue, tmp_path, shown, again=again).exit_code == 0
    finally:
        Nodes.run = run  # type: ignore[method-assign]
    assert sorted(queue.followed) == ["zero_stage=1 r2a1", "zero_stage=2 r2a1"]
    made = "zero_stage=3 r2a2"
    assert made in queue.order if again else queue.order == [made]
    assert len(queue.order) == (6 if again else 1)
    assert over.outcome is not None
    assert over.outcome.status == "ok"


def test_a_run_that_its_queue_started_again_is_judged_as_an_attempt_of_its_own(
    tmp_path: Path, shown: io.StringIO
) -> None:
    """The queue made the second attempt's folder while the first was followed."""
    queue = Queue(2)
    again: list[Path] = []
    halt = {"cause": "node_lost", "message": "n1: the node failed"}
    queue.ends = {ALL[0]: {"steps": 3, "halt": halt}}

    def requeue() -> None:
        if again or not list(tmp_path.glob("m-rack/zero_stage=0*/repeat1/attempt1")):
            return
        first = next(tmp_path.glob("m-rack/zero_stage=0*/repeat1/attempt1"))
        again.append(first.with_name("attempt2"))
        again[0].mkdir()
        text = (first / names.RUN).read_text()
        content = json.loads(text) | {"attempt": 2}
        content["run_id"] = content["run_id"].removesuffix("a1") + "a2"
        (again[0] / names.RUN).write_text(json.dumps(content))
        shutil.copy(first / names.SCRIPT, again[0])
        (again[0] / names.SUBMITTED).write_text("{}")

    queue.before_play = requeue
    assert go(queue, tmp_path, shown).exit_code == 0
    assert queue.followed == ["zero_stage=0 r1a2"]
    assert queue.order == ALL
    found = outcomes(tmp_path)
    assert found["zero_stage=0,seed=1 repeat1 attempt1"] == "node_lost"
    assert found["zero_stage=0,seed=1 repeat1 attempt2"] == "ok"


# --- what is shown ----------------------------------------------------------------------------


def queued(run: RunFolder, position: int) -> None:
    place = Queued("PENDING", "Priority", position, 1.8e9, time.time(), f"4{position}")
    write_json(run.path / names.QUEUE, place.to_json())


@pytest.mark.parametrize("terminal", [False, True])
def test_many_runs_are_shown_as_some_lines_and_a_summary(
    tmp_path: Path, shown: io.StringIO, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(screen, "LIVE_S" if terminal else "PLAIN_S", 0.02)
    queue = Queue(8)
    seen: list[Status] = []

    def hold(name: str) -> bool:
        run = RunFolder(next(tmp_path.glob(f"m-rack/{name.split()[0]},*/repeat{name[-3]}/*")))
        if name in ALL[4:] and not (run.path / names.QUEUE).exists():
            queued(run, ALL.index(name) + 1)
        if name == ALL[0] and "4 waiting, first [" in shown.getvalue() and not seen:
            seen.append(status.look(Campaign(tmp_path / "m-rack")))
        return not seen

    queue.hold = hold
    view = View(Screen(file=shown, force_terminal=terminal, width=200, height=50))
    bench(MATRIX, small_cluster(), tmp_path, engine=queue, view=view)
    text = shown.getvalue()
    words = "queued, 5th, Priority, expected 2027-01-15 "
    assert f"4 waiting, first [5/8] zero_stage=0,seed=1 repeat 2: {words}" in text
    assert "0 of 8 ended" in text
    if terminal:
        assert "[1/8] zero_stage=0,seed=1 " in text
        assert "\n  starting" in text
    else:
        assert "4 running; 4 waiting" in text
    (found,) = seen
    assert (len(found.runs_now), len(found.queued)) == (4, 4)
    assert found.running == found.runs_now[0]
    assert found.runs_now[0].hosts == ("n1",)
    assert {one.position for one in found.queued} == {5, 6, 7, 8}
    assert f"job 45: zero_stage=0,seed=1 repeat 2: {words}" in found.words()
    assert found.to_json()["queued"][0]["reason"] == "Priority"


def test_what_a_queue_says_in_words() -> None:
    assert Queued("PENDING", "Resources", 1).words() == "queued, 1st, Resources"
    assert Queued("PENDING", "None", 11).words() == "queued, 11th"
    assert Queued("CONFIGURING", position=22).words() == "configuring, 22nd"
    assert Queued("RUNNING", "None").words() == ""
    today = time.time()
    said = Queued("PENDING", "", 3, today).words()
    assert said == time.strftime("queued, 3rd, expected %H:%M UTC", time.gmtime(today))


def test_what_a_run_was_queued_for_is_no_part_of_what_it_took(
    tmp_path: Path, shown: io.StringIO
) -> None:
    queue = Queue(1)  # each is stamped before anybody reads the times

    def stamp() -> None:
        """The queue held it for 100 s, and it took 20."""
        for path in tmp_path.glob(f"m-rack/*/*/*/{names.SUBMITTED}"):
            planned = path.with_name(names.RUN).stat().st_mtime
            for name, at in ((names.PLACEMENT, 100.0), (names.ENDED, 120.0)):
                path.with_name(name).write_text("{}")
                os.utime(path.with_name(name), (planned + at,) * 2)

    queue.before_play = stamp
    go(queue, tmp_path, shown)
    ended = Campaign(tmp_path / "m-rack").attempts(MATRIX.cells[0].id, 1)[0].outcome
    assert ended is not None
    assert [ended.queued_s, ended.wall_s] == pytest.approx([100.0, 20.0])
