"""`python -m runner stop` cancels the jobs that campaigns wrote down, and no others.

What answers here for Slurm is made of its recorded answers; tests/on_slurm stops real jobs.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.placement import Submitted
from runner.folder.stored import write_json
from runner.launch.slurm import answers, commands, stopping
from runner.launch.slurm.answers import QueuedJob

from . import said

JOBS = answers.queued(said.SQUEUE)
WAITS, RUNS, ENDED = JOBS[2], JOBS[1], JOBS[6]


@dataclass
class Slurm:
    """Jobs by mark, and which were cancelled."""

    marked: dict[str, QueuedJob] = field(default_factory=dict)
    others: dict[int, QueuedJob] = field(default_factory=dict)
    cancelled: list[list[int]] = field(default_factory=list)

    def ours(self) -> dict[str, QueuedJob]:
        return self.marked

    def jobs(self, ids: Iterable[int]) -> dict[int, QueuedJob]:
        every = {job.id: job for job in self.marked.values()} | self.others
        return {number: every[number] for number in ids if number in every}

    def cancel(self, ids: Iterable[int]) -> None:
        self.cancelled.append(sorted(set(ids)))


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    answering = Slurm()
    for name in ("ours", "jobs", "cancel"):
        monkeypatch.setattr(commands, name, getattr(answering, name))
    monkeypatch.setattr(stopping, "PATIENCE_S", 0.05)
    monkeypatch.setattr(stopping, "LOOK_S", 0.01)
    return answering


def handed(runs: Path, folder: str, mark: str, job_id: int | None) -> RunFolder:
    """A run of campaign `c` that was handed over."""
    run = RunFolder(runs / "c" / folder)
    write_json(run.path / names.SUBMITTED, Submitted(mark, 1.0, job_id).to_json())
    write_json(runs / "c" / names.CAMPAIGN, {})
    return run


def attempt(number: int) -> str:
    return f"cell-00000000/repeat1/attempt{number}"


def stop(runs: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["stop", "--campaign", "c", "--runs", str(runs)]) == 0
    return capsys.readouterr().out.splitlines()


def test_waiting_jobs_are_cancelled_at_once_and_running_ones_when_they_have_ended(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    waits, runs = handed(tmp_path, attempt(1), "a", 2), handed(tmp_path, attempt(2), "b", 1)
    slurm.marked = {"a": WAITS, "b": RUNS, "of another campaign": JOBS[3]}
    assert stop(tmp_path, capsys) == [
        "c/cell-00000000/repeat1/attempt1: job 2 was cancelled; it had not begun",
        "c/cell-00000000/repeat1/attempt2: job 1 was cancelled; it had not ended after 0 s",
    ]
    assert slurm.cancelled == [[2], [1]]
    for run in (waits, runs):
        assert run.halt is not None
        assert run.halt.cause == "stopped"
    (runs.path / names.ENDED).touch()
    assert stop(tmp_path, capsys)[1:] == []


def test_a_job_whose_id_was_not_written_down_is_found_by_its_mark(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    handed(tmp_path, attempt(1), "a", None)
    slurm.marked = {"a": WAITS}
    assert len(stop(tmp_path, capsys)) == 1
    assert slurm.cancelled[0] == [2]


def test_what_has_ended_is_left_as_it_is(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evidence is not written over: a run whose job is gone is judged by the next bench."""
    gone, over = handed(tmp_path, attempt(1), "a", 6), handed(tmp_path, attempt(2), "b", 9)
    done = handed(tmp_path, attempt(3), "d", 2)
    (done.path / names.OUTCOME).write_text("{}")
    slurm.marked = {"a": ENDED, "d": WAITS}
    assert stop(tmp_path, capsys) == ["there was nothing to end"]
    assert slurm.cancelled == [[], []]
    assert gone.halt is over.halt is done.halt is None


def test_an_allocation_ends_after_its_runs_and_a_strangers_stays(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run in a salloc of the user's own is told to end; the salloc is the user's."""
    handed(tmp_path, attempt(1), "step of ours", 1)
    stranger = handed(tmp_path, attempt(2), "step of theirs", 77)
    handed(tmp_path, names.ALLOCATION, "z", 1)
    slurm.marked = {"z": RUNS}
    slurm.others = {77: replace(RUNS, id=77, comment="")}
    lines = stop(tmp_path, capsys)
    assert lines[0].startswith("c/cell-00000000/repeat1/attempt1: job 1 was cancelled; it had not")
    assert lines[1].endswith("job 77 is not this campaign's; its step there was told to end")
    assert lines[2] == "c: its allocation: job 1 was ended"
    assert slurm.cancelled == [[], [1]]
    assert stranger.halt is not None


def test_what_cannot_be_read_and_what_is_hostile_cancels_nothing(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    run = handed(tmp_path, attempt(1), "a", 2)
    slurm.marked = {"a": WAITS}
    texts: list[object] = [
        {"mark": "a"},
        {"mark": ["a"], "submitted_at": 1},
        {"job_id": "2; rm"},
        [],
    ]
    for odd in texts:
        (run.path / names.SUBMITTED).write_text(json.dumps(odd))
        assert stop(tmp_path, capsys) == ["there was nothing to end"]
    assert not any(slurm.cancelled)


def test_a_bench_that_lives_elsewhere_is_named(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of this machine is ended: tests/golden/test_terminal.py."""
    handed(tmp_path, attempt(1), "a", 2)
    with Campaign(tmp_path / "c").locked():
        (tmp_path / "c" / names.LOCK).write_text("0123 4711 login2")
        assert main(["stop", "--campaign", "c", "--runs", str(tmp_path)]) == 0
    assert "a bench (process 4711 on login2) runs campaign c now" in capsys.readouterr().err


def test_a_campaign_without_jobs_is_told_what_ends_its_runs(
    tmp_path: Path, slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c" / attempt(1)).mkdir(parents=True)
    write_json(tmp_path / "c" / names.CAMPAIGN, {})
    assert main(["stop", "--campaign", "c", "--runs", str(tmp_path)]) == 2
    assert "handed nothing to a queue" in capsys.readouterr().err
    assert main(["stop", "--campaign", "d", "--runs", str(tmp_path)]) == 2
    assert "there is no campaign 'd'" in capsys.readouterr().err
