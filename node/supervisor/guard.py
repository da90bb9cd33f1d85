"""A process beside a supervisor that nobody polls: where that is killed, it ends the run.

On Slurm a job's end does not reach a process that has left its task's session, unless the site
tracks processes by cgroups.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Callable


def guard(lost: Callable[[], None]) -> int:
    """Leave a process that calls `lost` once this one has ended without `release`.

    It must come before this process becomes a subreaper, lest it be one of the run's. Returns what
    `release` takes.
    """
    hear, tell = os.pipe()  # no program that is started inherits it, nor does a fork
    between = os.fork()
    if between == 0:
        os.setsid()  # whoever ends the task by its group or session does not end this
        if os.fork() == 0:
            os.close(tell)
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            await_end(hear, lost)
        os._exit(0)
    os.waitpid(between, 0)
    os.close(hear)
    open_handles = [tell]

    def drop() -> None:  # a fork that outlived this process would keep its end from being seen
        if open_handles:
            os.close(open_handles.pop())

    os.register_at_fork(after_in_child=drop)
    return tell


def await_end(hear: int, lost: Callable[[], None]) -> None:
    """Wait until the supervisor says that it is done, or is gone."""
    try:
        if not os.read(hear, 1):
            lost()
    except BaseException:
        import traceback

        traceback.print_exc()  # into the run's folder


def release(tell: int) -> None:
    """Say that this process has nothing left to do."""
    os.write(tell, b".")
