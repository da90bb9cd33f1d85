"""Processes that have not begun a program yet: nothing finds them by the run's mark."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process (KILL) when `parent`, which forked it, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    end_if_orphaned(parent)


def end_if_orphaned(parent: int) -> None:
    """End this process where `parent` has ended: right before exec, from which on it is marked."""
    if os.getppid() != parent:
        os._exit(127)
