"""A bound on what a node prints and how long it takes, while Ansible's connection listens to it.

Ansible keeps all that a command prints until it ends, and waits as long as the connection lives.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure

from node.schema import unfit
from node.supervisor.processes import ours, send

LOOK_S = 0.2  # between two looks at how much came


@contextmanager
def bounded(where: str, most: int, limit_s: float | None) -> Iterator[None]:
    """End what this process started once this thread has read `most` bytes, or after `limit_s`.

    Raises UnfitError, beginning with `where`, for the one, AnsibleConnectionFailure for the other.
    """
    over, errors = threading.Event(), list[Exception]()
    reader = threading.get_native_id()
    before, began, first = bytes_read(reader), time.monotonic(), ticks()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if bytes_read(reader) - before > most:
                errors.append(unfit(where, f"has more than {most} bytes"))
            elif limit_s is not None and time.monotonic() - began > limit_s:
                errors.append(AnsibleConnectionFailure(f"no answer within {limit_s:g} s"))
            if errors:
                started = ours("", os.getpid()).items()
                send({pid: start for pid, start in started if start >= first}, signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if errors:
            raise errors[0] from None


def ticks() -> int:
    """Return the time since boot as /proc has that of a process's start."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def bytes_read(thread: int) -> int:
    """Return how much a thread of this process has read so far; 0 where the system does not say.

    The count of the whole process would hold what its ended children read: a program that a local
    connection runs, its libraries with it.
    """
    try:
        count = Path(f"/proc/self/task/{thread}/io").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(count)
