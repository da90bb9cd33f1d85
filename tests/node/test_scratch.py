"""A run's scratch folder: made before it, removed with it however it ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from node.supervisor import scratch
from node.supervisor.answers import RefusedError
from tests.node.test_supervisor import SLEEP, Run, wait

FULL = """
import os, types
real = os.statvfs
def of(path):
    facts = {key: getattr(real(path), key) for key in dir(real(path)) if key.startswith("f_")}
    return types.SimpleNamespace(**{**facts, **({"f_bavail": 9} if "/local" in path else {})})
os.statvfs = of
"""
Make = Callable[..., Run]


@pytest.fixture
def above(tmp_path: Path) -> Path:
    return tmp_path / "local" / "me"


@pytest.fixture
def make(tmp_path: Path, above: Path) -> Iterator[Make]:
    """Runs, each with a root and a scratch folder of its own; all are ended."""
    made: list[Run] = []

    def new(script: str, **more: Any) -> Run:
        number = len(made)
        path = str(above / f"trainbench-run-{number}")
        made.append(Run(tmp_path / f"runs{number}", script, **{"scratch": path, **more}))
        return made[-1]

    yield new
    for run in made:
        run.clean()


def folder(run: Run) -> Path:
    return Path(run.job["scratch"])


def test_it_is_there_for_the_run_alone_and_goes_with_it(make: Make, above: Path) -> None:
    run = make('touch "$TMPDIR/x"; stat -c %a "$TMPDIR"/..; mkdir "$TMPDIR/../triton"')
    run.job["env"]["TMPDIR"] = f"{folder(run)}/tmp"
    assert run.finish()["rc"] == 0
    assert run.log == b"700\n"
    assert list(above.iterdir()) == []
    stopped = make(SLEEP).start()
    assert folder(stopped).is_dir()
    assert stopped.done(stop="enough")["ended_by"] == "stop"
    early = make(SLEEP)
    early.prepare()
    early.done(stop="before go")
    assert list(above.iterdir()) == []


def test_what_a_killed_supervisor_left_is_removed_by_a_poll_or_by_the_next_run(
    make: Make, above: Path
) -> None:
    asked, forgotten, living = make(SLEEP).start(), make("true"), make(SLEEP).start()
    forgotten.prepare()
    for run in (asked, forgotten):
        os.kill(run.daemon, signal.SIGKILL)
    wait(lambda: scratch.nobodys(str(folder(forgotten)), 0.0))
    assert asked.done()["ended_by"] == "supervisor_lost"
    assert not folder(asked).exists()
    assert folder(forgotten).is_dir(), "nobody asked"
    made_just_now = above / "trainbench-run-new"
    made_just_now.mkdir()
    images = above / "trainbench-images-x"  # what stays there on purpose
    images.mkdir()
    os.utime(images, (0, 0))
    make("true").finish()
    assert {path.name for path in above.iterdir()} == {
        *(folder(living).name, made_just_now.name, images.name)
    }
    forgotten.poll()


def test_a_folder_that_cannot_be_had_is_refused(make: Make, above: Path) -> None:
    first = make(SLEEP).start()
    answer = make("true", scratch=str(folder(first))).prepare()
    assert answer["refused"] == "node_busy"
    assert "wait for the run that uses it, or remove it" in answer["message"]
    (above.parent / "file").write_text("x")
    nowhere = make("true", scratch=str(above.parent / "file" / "trainbench-run-x")).prepare()
    assert nowhere["refused"] == "io_error"
    assert "on a disk of the node's own" in nowhere["message"]


def test_a_full_disk_is_refused_once_what_was_left_there_is_gone(make: Make, above: Path) -> None:
    left = make("true")
    left.prepare()
    os.kill(left.daemon, signal.SIGKILL)
    wait(lambda: scratch.nobodys(str(folder(left)), 0.0))
    answer = make("true").prepare(before=FULL)
    assert answer["refused"] == "disk_full"
    assert f"are free on the disk of {above}/trainbench-run-1 " in answer["message"]
    assert list(above.iterdir()) == []
    left.poll()


def test_a_requeued_job_waits_for_what_its_earlier_start_brings_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trainbench-run-1"
    path.mkdir(0o700)
    job = {"scratch": str(path)}
    with pytest.raises(RefusedError, match="exists: wait for the run"):
        scratch.make(job)
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    gone = threading.Timer(0.5, path.rmdir)
    gone.start()
    scratch.make(job)
    assert (path / scratch.TEMPORARY).is_dir()
    gone.join()


def test_a_folder_on_a_shared_file_system_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    job = {"scratch": "/home/me/trainbench-1"}
    assert scratch.notes({}) == []
    assert scratch.notes({"scratch": "/proc/trainbench-1"}) == []
    assert scratch.kind_of("/proc/x") == "proc"
    monkeypatch.setattr(scratch, "kind_of", lambda path: "nfs4")
    (said,) = scratch.notes(job)
    assert said.startswith("cluster_scratch /home/me is on nfs4, which nodes share; name a folder")
