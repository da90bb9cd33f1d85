"""The guard beside a supervisor that nobody polls."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runner.base.paths import PROJECT

# Leaves a guard that writes down what it found, then ends as told.
SUPERVISOR = """
import os, signal, sys
from node.supervisor.guard import guard, release

def lost():
    open(sys.argv[1], "w").write("group %d" % (os.getpgid(0) != group))

group = os.getpgid(0)
tell = guard(lost)
print("guarded", flush=True)
if sys.argv[2] == "released":
    release(tell)
    sys.exit()
os.kill(os.getpid(), signal.SIGKILL)
"""


def played(tmp_path: Path, how: str) -> Path:
    said = tmp_path / how
    argv = [sys.executable, "-c", SUPERVISOR, str(said), how]
    # Ends when nobody has the pipe any more: supervisor and guard.
    ran = subprocess.run(argv, cwd=PROJECT, capture_output=True, timeout=20)
    assert ran.returncode == (0 if how == "released" else -signal.SIGKILL), ran.stderr
    return said


def test_a_killed_supervisor_is_noticed_and_one_that_is_done_is_not(tmp_path: Path) -> None:
    assert played(tmp_path, "killed").read_text() == "group 1"  # not ended with the task's
    assert not played(tmp_path, "released").exists()


def test_a_fork_that_lives_on_does_not_hide_the_end(tmp_path: Path) -> None:
    """A launcher of several ranks is a fork of the supervisor that starts no program."""
    fork = "if os.fork() == 0:\n    os.close(1), os.close(2), signal.alarm(30), signal.pause()\n"
    script = SUPERVISOR.replace("os.kill(os.getpid()", f"{fork}os.kill(os.getpid()")
    seen = tmp_path / "seen"
    argv = [sys.executable, "-c", script, str(seen), "killed"]
    with subprocess.Popen(argv, cwd=PROJECT, start_new_session=True) as process:
        pass
    until = time.monotonic() + 20
    while not seen.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)


def test_what_ends_the_task_does_not_end_the_guard(tmp_path: Path) -> None:
    script = SUPERVISOR.replace("os.kill(os.getpid(), signal.SIGKILL)", "signal.pause()")
    said = tmp_path / "said"
    argv = [sys.executable, "-c", script, str(said), "waits"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=PROJECT, start_new_session=True, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"guarded\n"
        os.killpg(process.pid, signal.SIGKILL)
    until = time.monotonic() + 20
    while not said.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
