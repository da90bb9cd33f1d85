"""A node's processes where it starts several, one a device: they end with the first that fails."""

from __future__ import annotations

import os
import signal

from .parent import end_if_orphaned

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Sequence


def fan_out(argvs: Sequence[Sequence[str]], env: dict[str, str]) -> int:
    """Start a process of each argv, and wait; the exit code of the first that fails, else 0.

    A signal that ended one ends this process, too. What is left then is the daemon's to end.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getpid()
    for argv in argvs:
        if os.fork() == 0:
            try:
                end_if_orphaned(parent)
                os.execvpe(argv[0], list(argv), env)
            except OSError as error:
                os.write(2, ("trainbench: cannot start %s: %s\n" % (argv[0], error)).encode())
            os._exit(127)
    for _ in argvs:
        status = os.wait()[1]
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) != signal.SIGKILL:
                signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        if status:
            return os.WEXITSTATUS(status)
    return 0
