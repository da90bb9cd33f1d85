"""A node's several processes: the first that fails ends the wait, and says how."""

import os
import signal

import pytest

from node.supervisor.fan_out import fan_out

SLEEPS = ["sh", "-c", "echo $$ >&3; exec sleep 30"]


@pytest.mark.parametrize(
    ("argvs", "how"),
    [
        ([["true"], ["sh", "-c", "exit 0"]], (0, 0)),
        ([SLEEPS, ["sh", "-c", "exit 3"]], (3, 0)),
        ([SLEEPS, ["sh", "-c", "kill -9 $$"]], (0, signal.SIGKILL)),
        ([SLEEPS, ["sh", "-c", "kill -ABRT $$"]], (0, signal.SIGABRT)),
        ([SLEEPS, ["/no/program"]], (127, 0)),
    ],
)
def test_it_ends_as_the_first_that_fails(
    argvs: list[list[str]], how: tuple[int, int], capfd: pytest.CaptureFixture[str]
) -> None:
    """The others are the daemon's to end: here the test's."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write, 3)
        os._exit(fan_out(argvs, {"PATH": os.defpath}))
    status = os.waitpid(pid, 0)[1]
    code, number = (0, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (status >> 8, 0)
    assert (code, number) == how
    if SLEEPS in argvs:
        os.kill(int(os.read(read, 20)), signal.SIGKILL)
    os.close(read)
    os.close(write)
    assert ("cannot start /no/program" in capfd.readouterr().err) == (code == 127)
