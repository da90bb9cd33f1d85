"""Whether somebody stopped a run and let it go on: Slurm suspends by SIGSTOP and then SIGCONT."""

from __future__ import annotations

import signal
import time

from node.time_words import lasts

SHORTEST_S = 1.0  # of a pause that counts: a busy node is late by less


class Suspension:
    """Notices by SIGCONT, and by the clock, that this process stood still."""

    def __init__(self) -> None:
        self.last_look = time.monotonic()
        self.resumed = False

    def watch(self) -> None:
        """Begin to notice."""
        signal.signal(signal.SIGCONT, self._on_resume)

    def _on_resume(self, *_: object) -> None:
        self.resumed = True

    def pause_s(self, now: float) -> float:
        """Return for how many seconds the process was stopped since the last call; 0: it was not.

        `now` is by the monotonic clock.
        """
        pause, self.last_look = now - self.last_look, now
        resumed, self.resumed = self.resumed, False
        return pause if resumed and pause > SHORTEST_S else 0.0


def sentence(pause_s: float) -> str:
    """Say what happened to a run."""
    length = lasts(pause_s)
    return "the run was suspended for %s (as by scontrol suspend), and then went on" % length
