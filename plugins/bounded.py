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
from node.supervisor.processes import ours, send, stat_of
from plugins.awake import awake_s

LOOK_S = 0.2  # between two looks at how much came


@contextmanager
def bounded(where: str, most: int, limit_s: float | None) -> Iterator[None]:
    """End what this thread started once it has read `most` bytes, or after `limit_s`.

    Raises UnfitError, beginning with `where`, for the one, AnsibleConnectionFailure for the other.
    """
    over, errors = threading.Event(), list[Exception]()
    reader = threading.get_native_id()
    before, since = bytes_read(reader), ticks()
    began = 0.0 if limit_s is None else awake_s()

    def watch() -> None:
        while not over.wait(LOOK_S):
            if bytes_read(reader) - before > most:
                errors.append(unfit(where, f"has more than {most} bytes"))
            elif limit_s is not None and awake_s() - began > limit_s:
                errors.append(AnsibleConnectionFailure(f"no answer within {limit_s:g} s"))
            if errors:
                send(started_by(reader, since), signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        if errors:
            raise errors[0] from None


def started_by(thread: int, since: int) -> dict[int, int]:
    """Return what a thread of this process started since `since`, and what those started.

    Other threads have connections of their own.
    """
    children = Path(f"/proc/self/task/{thread}/children").read_text(encoding="ascii").split()
    starts = {pid: stat[1] for pid in map(int, children) if (stat := stat_of(pid)) is not None}
    for pid in list(starts):
        starts |= ours("", pid)
    return {pid: start for pid, start in starts.items() if start >= since}


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
