"""Processes that have not begun a program yet: nothing finds them by the run's mark."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process (KILL) when `parent`, which forked it, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        os._exit(127)


def outlive_parent() -> None:
    """Go on without it: right before exec, from which on the mark is in the environment."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
