"""A job whose run is over leaves the queue by itself, or is cancelled; Slurm is a stand-in."""

from collections.abc import Iterable

import pytest

from runner.base.dataclass_schema import read
from runner.launch.slurm import commands, job_cleanup
from runner.launch.slurm.answers import QueuedJob
from runner.launch.slurm.commands import ControllerError
from runner.launch.slurm.job_cleanup import LeavingJobs
from tests.runner.launch.slurm.test_job import QUEUED


class Slurm:
    """Jobs by their states, one list of states a job: each question takes the next."""

    def __init__(self, states: dict[int, list[str]]) -> None:
        self.states = states
        self.cancelled: list[int] = []

    def jobs(self, ids: Iterable[int]) -> dict[int, QueuedJob]:
        now = {n: self.states[n].pop(0) if self.states[n][1:] else self.states[n][0] for n in ids}
        return {n: read(QueuedJob, {**QUEUED, "id": n, "state": s}) for n, s in now.items()}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    found = Slurm({1: ["RUNNING", "COMPLETING"], 2: ["RUNNING"], 3: ["COMPLETED"]})
    monkeypatch.setattr(commands, "jobs", found.jobs)
    monkeypatch.setattr(commands, "cancel", found.cancelled.extend)
    monkeypatch.setattr(job_cleanup, "LEAVES_S", 0.05)
    monkeypatch.setattr(job_cleanup, "LOOK_S", 0.01)
    return found


def test_who_stays_is_cancelled_and_nobody_else(slurm: Slurm) -> None:
    jobs = LeavingJobs()
    for number in (1, 2, 3):
        jobs.add(number)
    jobs.see_off(lambda: False)
    assert slurm.cancelled == [2]


def test_one_that_stays_is_cancelled_while_other_runs_end(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_cleanup, "LEAVES_S", 0.0)
    jobs = LeavingJobs()
    jobs.add(2)
    jobs.add(3)
    assert slurm.cancelled == [2]


def test_nobody_waits_for_them_after_ctrl_c_or_without_a_controller(
    slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = LeavingJobs()
    jobs.add(2)
    jobs.see_off(lambda: True)
    assert slurm.cancelled == []

    def away(ids: Iterable[int]) -> dict[int, QueuedJob]:
        raise ControllerError("Slurm's controller cannot be reached")

    monkeypatch.setattr(commands, "jobs", away)
    jobs.see_off(lambda: False)
    assert slurm.cancelled == []
