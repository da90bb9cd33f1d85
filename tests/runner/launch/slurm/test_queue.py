"""One question for all jobs, seldom; silence is no end, and an absent controller neither.

What answers here for Slurm is made of its recorded answers; tests/on_slurm asks a real one.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from node.causes import Cause
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.launch.slurm import answers
from runner.launch.slurm.answers import AccountedJob, JobRecord, QueuedJob
from runner.launch.slurm.commands import ControllerError
from runner.launch.slurm.queue import LONGEST_S, Queue
from runner.launch.slurm.states import Ended

from . import said

JOBS = answers.queued(said.SQUEUE)


@dataclass
class Slurm:
    """What Slurm knows, and how often it was asked."""

    queue: dict[int, QueuedJob] = field(default_factory=dict)
    records: dict[int, JobRecord] = field(default_factory=dict)
    accounts: dict[int, AccountedJob] = field(default_factory=dict)
    private: str = "none"
    away: bool = False
    now: float = 0.0
    asked: list[str] = field(default_factory=list)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            raise ControllerError("away")

    def jobs(self, ids: Iterable[int]) -> dict[int, QueuedJob]:
        wanted = list(ids)
        self._ask(f"jobs {wanted}")
        return {number: self.queue[number] for number in wanted if number in self.queue}

    def job(self, number: int) -> JobRecord | None:
        self._ask(f"job {number}")
        return self.records.get(number)

    def accounted(self, ids: Iterable[int]) -> dict[int, AccountedJob]:
        self._ask("accounted")
        return {number: self.accounts[number] for number in ids if number in self.accounts}

    def ahead(self, waiting: Iterable[QueuedJob]) -> dict[int, int]:
        self._ask("ahead")
        return {job.id: 2 for job in waiting}

    def configuration(self) -> dict[str, str]:
        return {"PrivateData": self.private}

    def clock(self) -> float:
        return self.now


Watched = Callable[..., Queue]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Makes a queue without its thread, of whom these jobs are watched."""
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    with ExitStack() as held:

        def watching(slurm: Slurm, *numbers: int) -> Queue:
            queue = Queue(asked=slurm, clock=slurm.clock)
            for number in numbers:
                held.enter_context(queue.watching(number))
            return queue

        yield watching


def test_all_jobs_are_one_question(watched: Watched) -> None:
    slurm = Slurm(dict(JOBS), private="jobs,usage")
    queue = watched(slurm, 1, 2, 3)
    queue.ask()
    assert slurm.asked == ["jobs [1, 2, 3]"]
    look = queue.look(1)
    assert look is not None
    assert look.nodes == "node[1-2]"
    assert queue.ended(1) is None


def test_less_and_less_is_asked_while_nothing_changes(watched: Watched) -> None:
    slurm = Slurm(dict(JOBS))
    queue = watched(slurm, 2)
    assert [queue.ask() for _ in range(9)] == [1, 2, 4, 8, 16, 32, LONGEST_S, LONGEST_S, LONGEST_S]
    slurm.queue[2] = replace(JOBS[2], reason="Priority")  # comes and goes
    assert queue.ask() == LONGEST_S
    slurm.queue[2] = JOBS[1]
    assert queue.ask() == 1
    queue.ask()
    queue.soon()
    assert [queue.ask() for _ in range(2)] == [1, 2]


def test_a_job_that_squeue_has_lost_is_asked_of_scontrol_then_of_sacct(
    watched: Watched,
) -> None:
    failed = answers.recorded(said.NO_OUTPUT_FOLDER)
    assert failed is not None
    slurm = Slurm({}, {6: failed}, answers.accounted(said.COMPLETED))
    queue = watched(slurm, 6, 2)
    queue.ask()
    ends = [queue.ended(number) for number in (6, 2)]
    assert [end.cause for end in ends if end] == [Cause.JOB_FAILED, Cause.CANCELLED]
    assert [end.words for end in ends if end][1] == "job 2 was cancelled"
    queue.ask()
    assert slurm.asked[-1] == "jobs []"


def test_a_job_that_scontrol_has_running_goes_on(watched: Watched) -> None:
    running = answers.recorded(said.RUNNING)
    assert running is not None
    queue = watched(Slurm({}, {1: running}), 1)
    for _ in range(5):
        queue.ask()
    assert queue.ended(1) is None


def test_a_job_that_nobody_knows_is_lost_the_second_time(watched: Watched) -> None:
    slurm = Slurm()
    queue = watched(slurm, 99)
    queue.ask()
    assert queue.ended(99) is None
    queue.ask()
    end = queue.ended(99)
    assert end is not None
    assert end.cause == Cause.JOB_LOST


def test_who_cancelled_a_job_is_asked_of_sacct(watched: Watched) -> None:
    record = answers.recorded(said.RUNNING)
    assert record is not None
    accounts = answers.accounted("1|CANCELLED by 0|0:15|1|2|node1\n")
    gone = replace(JOBS[1], state=answers.StateName("CANCELLED"))
    slurm = Slurm({1: gone}, {1: replace(record, state=gone.state)}, accounts)
    queue = watched(slurm, 1)
    queue.ask()
    assert queue.ended(1) == Ended(Cause.CANCELLED, "job 1 was cancelled by root")


def test_an_absent_controller_changes_nothing_that_is_known(
    watched: Watched,
) -> None:
    slurm = Slurm(dict(JOBS))
    queue = watched(slurm, 2)
    queue.ask()
    slurm.away, slurm.now = True, 100.0
    queue.ask()
    slurm.now = 140.0
    pauses = [queue.ask() for _ in range(8)]
    assert max(pauses) == 15
    assert queue.ended(2) is None
    assert queue.look(2) == JOBS[2]
    assert queue.words(2) == "queued, 3rd, Resources; Slurm's controller is silent for 40 s"
    slurm.away = False
    queue.ask()
    assert queue.words(2) == "queued, 3rd, Resources"


def test_what_a_job_waits_for_is_said(watched: Watched) -> None:
    slurm = Slurm(dict(JOBS), private="jobs")
    at = int(time.time()) + 86_400
    slurm.queue[3] = replace(JOBS[3], starts_at=at)
    queue = watched(slurm, 1, 3, 7)
    assert queue.words(3) == "queued"
    queue.ask()
    day = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    assert queue.words(3) == f"queued, BeginTime, expected {day}"
    slurm.queue[3] = replace(JOBS[3], starts_at=34007604015)  # so sbatch said of an unknown QOS
    queue.ask()
    assert queue.words(3) == "queued, BeginTime"
    assert queue.words(7) == "queued, JobHeldUser (`scontrol release 7` lets it go)"
    assert queue.words(1) == ""
    assert queue.words(99) == ""


def test_where_a_job_stands_is_written_down(watched: Watched, tmp_path: Path) -> None:
    slurm, run = Slurm(dict(JOBS)), RunFolder(tmp_path)
    slurm.queue[2] = replace(JOBS[2], reason="Nodes required for job are DOWN, " * 9)
    queue = watched(slurm)
    with queue.watching(2, tmp_path / names.QUEUE):
        queue.ask()
        queued = run.queued
        assert queued is not None
        assert (queued.job_id, queued.state, queued.position) == ("2", "PENDING", 3)
        assert abs(queued.asked_at - time.time()) < 60
        before = (tmp_path / names.QUEUE).stat().st_mtime_ns
        queue.ask()
        assert (tmp_path / names.QUEUE).stat().st_mtime_ns == before
        slurm.queue[2] = JOBS[1]
        queue.ask()
        assert run.queued is not None
        assert (run.queued.state, run.queued.words()) == ("RUNNING", "")


def test_places_are_asked_for_seldom(watched: Watched) -> None:
    slurm = Slurm(dict(JOBS))
    queue = watched(slurm, 2, 3)
    for slurm.now in (0.0, 1.0, 29.0, 31.0):
        queue.ask()
    assert slurm.asked.count("ahead") == 2


def test_a_reason_that_can_never_be_met_has_to_last(watched: Watched) -> None:
    slurm = Slurm(dict(JOBS))
    queue = watched(slurm, 4, 2)
    assert queue.never_starts(4) is None
    queue.ask()
    assert queue.never_starts(4) is None
    slurm.now = 11.0
    queue.ask()
    end = queue.never_starts(4)
    assert end is not None
    assert end.cause == Cause.NEVER_STARTS
    assert queue.never_starts(2) is None
    slurm.queue[4] = JOBS[2]
    queue.ask()
    assert queue.never_starts(4) is None


def test_a_job_that_nobody_watches_is_asked_for_now() -> None:
    slurm = Slurm(accounts=answers.accounted(said.COMPLETED))
    end = Queue(asked=slurm).ended(2)
    assert end is not None
    assert end.cause == Cause.CANCELLED
    assert Queue(asked=Slurm(away=True)).ended(2) is None


def test_watchers_of_many_threads_share_one_that_asks() -> None:
    slurm = Slurm(dict(JOBS))
    queue = Queue(asked=slurm)
    seen: list[str] = []

    def watch(number: int) -> None:
        with queue.watching(number):
            until = time.monotonic() + 10
            while queue.look(number) is None and time.monotonic() < until:
                time.sleep(0.01)
            job = queue.look(number)
            seen.append(job.state if job else "")

    threads = [threading.Thread(target=watch, args=(number,)) for number in JOBS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(job.state for job in JOBS.values())
    questions = [asked for asked in slurm.asked if asked.startswith("jobs ")]
    assert len(questions) < len(JOBS) - 1  # threads that start late are in a later one
    assert queue.look(1) is None


def test_an_error_of_our_own_reaches_the_watchers() -> None:
    class Broken(Slurm):
        def jobs(self, ids: Iterable[int]) -> dict[int, QueuedJob]:
            raise RuntimeError("a bug")

    queue = Queue(asked=Broken())

    def until_it_is_said() -> None:
        with queue.watching(1):
            for _ in range(1000):
                queue.ended(1)
                time.sleep(0.01)

    with pytest.raises(RuntimeError, match="a bug"):
        until_it_is_said()
