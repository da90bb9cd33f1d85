"""A process that ends with the one that forked it, and one that does not start without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from runner.base.paths import PROJECT

PARENT = """
import os, signal, sys
from node.supervisor.parent import end_if_orphaned, end_with_parent

parent = os.getpid()
child = os.fork()
if child == 0:
    if sys.argv[1] == "ends":
        end_with_parent(parent)
    end_if_orphaned(os.getpid() if sys.argv[1] == "orphaned" else parent)
    print(os.getpid(), flush=True)
    os.close(1), os.close(2)
    os.execvp("sleep", ["sleep", "30"])
os.close(1)
signal.pause()
"""


def state(pid: int) -> str:
    """The letter of /proc's state; none where no such process is."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.parametrize("how", ["ends", "outlives", "orphaned"])
def test_it_ends_with_its_parent_unless_it_outlives_it(how: str) -> None:
    argv = [sys.executable, "-c", PARENT, how]
    with subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    if how == "orphaned":
        assert line == b""
        return
    child = int(line)
    until = time.monotonic() + (20 if how == "ends" else 0.5)
    while state(child) not in ("", "Z") and time.monotonic() < until:
        time.sleep(0.01)
    if how == "ends":
        assert state(child) in ("", "Z")
    else:
        assert state(child) == "S"
        os.kill(child, signal.SIGKILL)
