"""Does a run go on as the unbroken one? By the logs of a trainer that really lies, or does not."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runner.figures.resumed import resumed
from runner.logs.families.torch_gpt import TorchGpt
from runner.results.story import read_sessions
from runner.terms.record import Record
from runner.terms.story import AttemptSeen, Story, TrainedSession
from tests.conftest import ROOT

TRAINER = ROOT / "tests" / "resuming_trainer.py"


def trained(folder: Path, steps: int, lie: str = "") -> list[TrainedSession]:
    """Run the trainer once, from what is in the folder."""
    env = {"STEPS": str(steps), "INTERVAL": "10", "STEP_S": "0", "LIE": lie}
    done = subprocess.run(
        [sys.executable, str(TRAINER), "0", "1", "127.0.0.1", "0", str(folder)],
        env={**os.environ, **env},
        capture_output=True,
        check=True,
    )
    return list(read_sessions(TorchGpt(), done.stdout.splitlines(keepends=True)))


def record(cell: str, sessions: list[TrainedSession], **more: object) -> Record:
    attempts = tuple(AttemptSeen(0.0, 1.0, 1.0, sessions=(one,)) for one in sessions)
    story = Story(attempts)
    made = Record("c", cell, cell, "torch_gpt", "ok", "", story=story)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.fixture
def unbroken(tmp_path: Path) -> Record:
    folder = tmp_path / "unbroken"
    folder.mkdir()
    return record("none", trained(folder, 60))


def broken(folder: Path, lie: str) -> list[TrainedSession]:
    """Two sessions: the first ends after 35 of 60 iterations, the second goes on at 30."""
    folder.mkdir()
    first = trained(folder, 35)
    return [*first, *trained(folder, 60, lie)]


@pytest.mark.parametrize("lie", ["optimizer", "data", "step"])
def test_a_trainer_that_lies_is_found(tmp_path: Path, unbroken: Record, lie: str) -> None:
    run = record("liar", broken(tmp_path / "liar", lie))
    found = resumed([run], [run, unbroken])
    assert found is not None
    assert found.same is False
    assert found.at > 30
    assert found.by > 10 * found.tolerance
    assert "not the unbroken run's" in found.sentence


def test_one_that_does_not_is_the_same(tmp_path: Path, unbroken: Record) -> None:
    run = record("honest", broken(tmp_path / "honest", ""))
    found = resumed([run], [run, unbroken])
    assert found is not None
    assert found.same is True
    assert (found.by, found.compared) == (0.0, 30)


def test_noise_before_the_failure_is_allowed_after_it(tmp_path: Path, unbroken: Record) -> None:
    sessions = broken(tmp_path / "noisy", "")
    noisy = [
        replace(
            one,
            steps=tuple(
                replace(step, loss=(step.loss or 0) * (1 + 1e-3 * (step.iteration % 2)))
                for step in one.steps
            ),
        )
        for one in sessions
    ]
    found = resumed([record("noisy", noisy)], [unbroken])
    assert found is not None
    assert found.same is True


def test_without_an_unbroken_run_nothing_is_said(tmp_path: Path, unbroken: Record) -> None:
    run = record("honest", broken(tmp_path / "honest", ""))
    other = replace(unbroken, parameters={"seed": 7})
    found = resumed([run], [run, other])
    assert found is not None
    assert found.same is None
    assert "faults: none" in found.sentence
    assert resumed([unbroken], [run]) is None
