"""A run as a job, from its submission to its end; Slurm's programs and its queue are stand-ins.

tests/on_slurm has the same on real Slurm.
"""

import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from node.causes import Cause, EndedBy
from runner.base.dataclass_schema import read
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.folder.placement import Submitted
from runner.folder.stored import write_json
from runner.launch.slurm import commands, handover, job
from runner.launch.slurm.answers import JobRecord, QueuedJob
from runner.launch.slurm.commands import ControllerError, QueueFullError, SlurmError
from runner.launch.slurm.states import Ended
from runner.plan.make import make_run
from runner.terms.engines.slurm import Slurm
from tests.runner.builders import small_cluster, small_matrix

CANCELLED = Ended(Cause.CANCELLED, "job 7 was cancelled by root")


class StandInQueue:
    """What a Queue says, as a test tells it."""

    def __init__(self) -> None:
        self.end: Ended | None = None
        self.never: Ended | None = None
        self.job: QueuedJob | None = None

    @contextmanager
    def watching(self, number: int, file: Path | None = None) -> Iterator[None]:
        yield

    def ended(self, number: int) -> Ended | None:
        return self.end

    def never_starts(self, number: int) -> Ended | None:
        return self.never

    def look(self, number: int) -> QueuedJob | None:
        return self.job

    def soon(self) -> None:
        pass


class StandInSlurm:
    """Slurm's programs: what was submitted and cancelled, and what each answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.submitted: list[Path] = []
        self.cancelled: list[int] = []
        self.by_comment: tuple[Any, ...] = ()
        self.refusals: list[SlurmError] = []
        self.record: JobRecord | None = None
        self.at_submission: Callable[[Path], None] = lambda script: None
        monkeypatch.setattr(commands, "submit", self.submit)
        monkeypatch.setattr(commands, "cancel", self.cancelled.extend)
        monkeypatch.setattr(commands, "find_by_comment", lambda mark: self.by_comment)
        monkeypatch.setattr(commands, "job", lambda number: self.record)
        monkeypatch.setattr(job, "AGAIN_S", 0.0)
        monkeypatch.setattr(handover, "POLL_S", 0.001)
        monkeypatch.setattr(handover, "LATE_S", 0.01)
        monkeypatch.setattr(job, "UNBEGUN_S", 0.01)

    def submit(self, script: Path, secrets: Mapping[str, str]) -> int:
        if self.refusals:
            raise self.refusals.pop(0)
        self.submitted.append(script)
        self.at_submission(script)
        return 7


class Site:
    """A planned run, and what hands it over."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster, matrix = small_cluster(nodes=2), small_matrix()
        self.campaign = HeldFolder(folder / "camp")
        self.run = RunFolder(folder / "camp" / "cell" / "repeat1" / "attempt1")
        planned = make_run(matrix, replace(matrix.cells[0], nodes=2), cluster, campaign="camp")
        write_json(self.run.path / names.RUN, planned.to_json())
        assert self.run.orders is not None
        self.orders = self.run.orders
        self.queue, self.slurm = StandInQueue(), StandInSlurm(monkeypatch)
        self.jobs = job.Jobs(Slurm(nodes=2), self.queue, {})  # type: ignore[arg-type]  # a stand-in

    def go(self, gone: bool = False) -> str:
        return self.jobs.run(self.campaign, self.run, self.orders, lambda: gone)

    def end(self, **done: Any) -> None:
        """What the nodes of a job leave."""
        for rank in (0, 1):
            write_json(
                self.run.node(rank) / names.DONE, {"ended_by": EndedBy.EXIT, "rc": 0, **done}
            )
        (self.run.path / names.ENDED).write_text("{}")

    def placed(self) -> None:
        write_json(
            self.run.path / names.PLACEMENT,
            {
                **{"host": ["g1", "g2"], "address": ["g1", "g2"], "devices": [[], []]},
                **{"cpus": [4, 4], "port": 20_000},
            },
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_a_job_is_written_down_before_it_is_submitted_and_again_with_its_id(site: Site) -> None:
    before: list[Submitted | None] = []

    def at_submission(script: Path) -> None:
        before.append(site.run.submitted)
        site.end()

    site.slurm.at_submission = at_submission
    site.go()
    (first,) = before
    assert first is not None
    assert first.job_id is None
    after = site.run.submitted
    assert after is not None
    assert (after.mark, after.job_id) == (first.mark, 7)
    script = (site.run.path / "submitted.sh").read_text()
    assert f"#SBATCH --comment=trainbench:{first.mark}\n" in script
    assert site.run.halt is None


def test_a_run_that_was_handed_over_is_followed_and_not_submitted_again(site: Site) -> None:
    handover.known(site.run, handover.begun(site.run), 5)
    assert site.jobs.goes_on(site.run)
    site.end()
    site.go()
    assert site.slurm.submitted == []


def test_a_job_whose_id_was_not_written_down_is_found_by_its_comment(site: Site) -> None:
    handover.begun(site.run)
    assert not site.jobs.goes_on(site.run)
    site.slurm.by_comment = (read(QueuedJob, QUEUED),)
    assert site.jobs.goes_on(site.run)
    assert json.loads((site.run.path / names.SUBMITTED).read_text())["job_id"] == 9


QUEUED = {
    **{"id": 9, "state": "PENDING", "partition": "main", "nodes": "", "priority": 1},
    **{"submitted_at": 1, "starts_at": None, "ends_at": None, "reason": "BeginTime", "comment": ""},
}


def test_an_unreachable_controller_is_asked_again(site: Site) -> None:
    site.slurm.refusals = [ControllerError("Slurm's controller cannot be reached")] * 2
    site.slurm.at_submission = lambda script: site.end()
    site.go()
    assert len(site.slurm.submitted) == 1
    assert site.run.halt is None


def test_what_sbatch_refuses_is_the_runs_end(site: Site) -> None:
    site.slurm.refusals = [SlurmError("sbatch refused it: no such partition")]
    assert site.go() == "the job was not submitted"
    assert site.run.halt is not None
    assert site.run.halt.message == "sbatch refused it: no such partition"


def test_slurm_says_why_a_run_ended_whose_nodes_did_not(site: Site) -> None:
    site.queue.end = CANCELLED
    site.go()
    assert site.run.halt is not None
    assert (site.run.halt.cause, site.run.halt.message) == (Cause.CANCELLED, CANCELLED.words)


def test_a_supervisor_that_was_told_to_end_does_not_know_why(site: Site) -> None:

    def at_submission(script: Path) -> None:
        site.run.ask_to_halt(Cause.STOPPED, "node2: the supervisor was sent TERM", host="node2")
        site.end(ended_by=EndedBy.STOP, rc=None, message="the supervisor was sent TERM")

    site.slurm.at_submission = at_submission
    site.queue.end = Ended(Cause.JOB_TIME_LIMIT, "job 7 reached Slurm's time limit")
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.JOB_TIME_LIMIT


@pytest.mark.parametrize("done", [{"rc": 0}, {"rc": 3}, {"ended_by": EndedBy.TIME_LIMIT}])
def test_our_own_records_win_over_what_slurm_says(site: Site, done: dict[str, Any]) -> None:
    site.end(**done)
    site.queue.end = CANCELLED
    site.go()
    assert site.run.halt is None


@pytest.mark.parametrize(
    ("down", "named"),
    [
        ({"g2": "power cut"}, "g2 (power cut)"),
        ({"g1": "", "g2": ""}, "g1, g2"),
        ({}, "g1"),  # the one that did not say how it ended
    ],
)
def test_a_node_that_slurm_lost_is_named(
    site: Site, monkeypatch: pytest.MonkeyPatch, down: dict[str, str], named: str
) -> None:
    monkeypatch.setattr(commands, "down_nodes", lambda hosts: down)
    site.placed()
    write_json(site.run.node(1) / names.DONE, {"ended_by": EndedBy.STOP})
    site.queue.end = Ended(Cause.NODE_LOST, "job 7 lost a node, which Slurm takes for down")
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.message == f"job 7 lost a node, which Slurm takes for down: {named}"


def test_srun_says_which_task_was_killed(site: Site) -> None:
    site.queue.end = Ended(Cause.JOB_FAILED, "job 7 ended with exit code 137 and left no record")
    (site.run.path / names.SUBMIT_OUTPUT).write_text(
        "0: slurmstepd-node2: error: *** STEP 7.0 ON node2 CANCELLED AT 2026-11-22T12:04:26 ***\n"
        "srun: error: node3: task 1: Killed\n"
        "srun: Terminating StepId=7.0\n"
        "srun: error: node2: task 0: Terminated\n"
    )
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.message.endswith("left no record: srun: error: node3: task 1: Killed")


def test_a_job_that_waits_has_those_cancelled_that_do_not_leave(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> None:
        site.queue.end = CANCELLED

    monkeypatch.setattr(site.jobs.leaving, "look", look)
    site.go()
    assert site.run.halt is not None


def test_a_job_that_can_never_start_is_cancelled(site: Site) -> None:
    site.queue.never = Ended(Cause.NEVER_STARTS, "job 7 never starts (PartitionTimeLimit): ...")
    site.go()
    assert site.slurm.cancelled == [7]
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.NEVER_STARTS


def test_a_halted_job_that_has_not_begun_is_cancelled_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_submission(script: Path) -> None:
        site.run.ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")

    def cancel(ids: list[int]) -> None:
        site.slurm.cancelled.extend(ids)
        site.queue.end = CANCELLED

    monkeypatch.setattr(commands, "cancel", cancel)
    site.slurm.at_submission = at_submission
    site.go()
    assert site.slurm.cancelled == [7]
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.INTERRUPTED


def test_a_halted_job_that_runs_ends_itself(site: Site) -> None:

    def at_submission(script: Path) -> None:
        site.placed()
        site.run.ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")
        site.end()

    site.slurm.at_submission = at_submission
    site.go()
    assert site.slurm.cancelled == []


def test_a_run_that_is_to_end_is_not_submitted(site: Site) -> None:
    site.run.ask_to_halt(Cause.INTERRUPTED, "stopped by Ctrl-C")
    assert site.go() == "the job was not submitted"
    assert site.slurm.submitted == []


def test_a_finished_job_whose_id_was_never_written_down_is_not_submitted_again(site: Site) -> None:
    """Bench was killed in sbatch, the job ended, and Slurm has forgotten it."""
    handover.begun(site.run)
    site.end()
    assert site.jobs.goes_on(site.run)
    site.go()
    assert site.slurm.submitted == []
    assert site.run.halt is None


def test_a_job_that_came_through_though_sbatch_failed_is_not_submitted_again(site: Site) -> None:
    site.slurm.refusals = [ControllerError("sbatch said nothing for 180 s")]
    site.slurm.by_comment = (read(QueuedJob, QUEUED),)
    site.queue.end = CANCELLED
    site.go()
    assert site.slurm.submitted == []
    assert site.run.submitted is not None
    assert site.run.submitted.job_id == 9


def test_nobody_waits_after_a_second_ctrl_c(site: Site) -> None:
    assert site.go(gone=True) == "job 7 was told to end; `scancel 7` ends it at once"


def test_a_requeued_job_ends_its_attempt_and_begins_the_next(site: Site) -> None:
    site.placed()
    site.queue.job = read(QueuedJob, {**QUEUED, "id": 7})
    site.slurm.record = read(
        JobRecord,
        {
            **{"id": 7, "state": "PENDING", "reason": "BeginTime", "restarts": 1},
            **{"exit_code": 0, "exit_signal": 0, "submitted_at": 1, "starts_at": None},
            **{"ends_at": None, "partition": "main", "nodes": "", "comment": ""},
        },
    )
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.REQUEUED
    later = RunFolder(site.run.path.with_name("attempt2"))
    assert later.submitted is not None
    assert (later.submitted.job_id, later.submitted.restart) == (7, 1)
    assert site.jobs.goes_on(later)


def test_a_requeued_job_is_not_cancelled_while_its_next_attempt_runs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes said that they ended: the job looks as one whose run is over, and goes on."""

    def at_submission(script: Path) -> None:
        site.placed()
        site.end(ended_by=EndedBy.STOP, rc=None, message="the supervisor was sent TERM")
        site.queue.job = read(QueuedJob, {**QUEUED, "id": 7})
        site.slurm.record = read(
            JobRecord,
            {
                **{"id": 7, "state": "PENDING", "reason": "BeginTime", "restarts": 1},
                **{"exit_code": 0, "exit_signal": 0, "submitted_at": 1, "starts_at": None},
                **{"ends_at": None, "partition": "main", "nodes": "", "comment": ""},
            },
        )

    monkeypatch.setattr(site.jobs.leaving, "add", site.slurm.cancelled.append)
    site.slurm.at_submission = at_submission
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.REQUEUED
    assert site.slurm.cancelled == []


@pytest.mark.parametrize("placed", [True, False])
def test_a_later_start_that_ended_before_anybody_looked_is_followed(
    site: Site, placed: bool
) -> None:
    """Slurm is asked once a minute: the job was requeued, started again and ended in between."""
    site.slurm.record = read(
        JobRecord,
        {
            **{"id": 7, "state": "COMPLETED", "reason": "", "restarts": 1},
            **{"exit_code": 0, "exit_signal": 0, "submitted_at": 1, "starts_at": 2},
            **{"ends_at": 3, "partition": "main", "nodes": "", "comment": ""},
        },
    )

    def at_submission(script: Path) -> None:
        later = site.run.path.with_name("attempt2")
        later.mkdir()
        (later / names.RUN).write_bytes((site.run.path / names.RUN).read_bytes())
        if placed:
            site.placed()
            site.run.ask_to_halt(Cause.STOPPED, "g1: the supervisor was sent TERM", host="g1")
            site.end(ended_by=EndedBy.STOP, rc=None, message="the supervisor was sent TERM")
        site.queue.end = Ended(Cause.JOB_FAILED, "job 7 ended and left no record")

    site.slurm.at_submission = at_submission
    site.go()
    assert site.run.halt is not None
    assert site.run.halt.cause == Cause.REQUEUED
    later = RunFolder(site.run.path.with_name("attempt2"))
    assert site.jobs.goes_on(later)
    assert later.submitted is not None
    assert later.submitted.restart == 1


def test_logs_that_were_looked_for_too_early_show_at_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view had looked for them before they were there, and NFS remembers that for a minute."""
    looked: list[str] = []
    monkeypatch.setattr(handover, "clock", looked.append)
    site.slurm.at_submission = lambda script: site.end()
    (site.run.node(1)).mkdir(parents=True)
    site.run.log(1).touch()
    site.go()
    assert looked == [str(site.run.path / names.NODES), str(site.run.node(0))]


def test_what_nodes_brought_is_put_away_once_their_run_was_judged(site: Site) -> None:
    site.placed()
    (site.run.path / names.ROSTER).mkdir()
    site.end()
    for rank in (0, 1):
        with zipfile.ZipFile(site.run.node(rank) / names.PACKED, "w") as packed:
            packed.writestr(names.SAMPLES, "timestamp, index\n")
    handover.put_away(site.campaign.path)
    assert (site.run.path / names.ROSTER).is_dir()  # nobody has read it yet
    write_json(site.run.path / names.OUTCOME, {"status": "ok"})
    handover.put_away(site.campaign.path)
    assert not (site.run.path / names.ROSTER).exists()
    assert (site.run.path / names.PACKED).is_file()
    assert not list(site.run.path.glob(f"{names.NODES}/*/{names.PACKED}"))


def test_hosts_are_those_that_the_job_had(site: Site) -> None:
    planned = list(site.run.hosts.values())
    site.placed()
    assert list(site.run.hosts.values()) == ["g1", "g2"]
    assert all(host in str(site.run.log(rank)) for rank, host in enumerate(planned))


def test_a_run_that_the_queue_has_no_room_for_is_held_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site allows a user so many jobs: the next is submitted when one has ended."""
    monkeypatch.setattr(job, "FULL_S", 0.0)
    full = "the queue takes no more jobs of this user's (QOSMaxSubmitJobPerUserLimit)"
    site.slurm.refusals = [QueueFullError(full)]
    site.slurm.at_submission = lambda script: site.end()
    site.go()
    assert site.slurm.submitted
    assert site.run.halt is None
    assert site.run.queued is not None
    assert site.run.queued.words() == f"not submitted, {full}"


def test_a_job_that_ends_makes_room_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a run of seconds would wait for a minute behind another."""
    monkeypatch.setattr(job, "FULL_S", 60.0)
    site.slurm.refusals = [QueueFullError("full")]
    site.slurm.at_submission = lambda script: site.end()
    threading.Timer(0.5, lambda: site.jobs.ended.append(7)).start()
    began = time.monotonic()
    site.go()
    assert site.slurm.submitted
    assert time.monotonic() - began < 50
