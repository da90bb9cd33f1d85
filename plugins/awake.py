"""The seconds that this process was awake: neither stopped, nor starved of processors.

What others are waited for is counted by them. A control machine that did nothing for half a minute
did not listen either, so that nobody was silent.
"""

from __future__ import annotations

import functools
import os
import threading
import time

TICK_S = 0.25
MOST_S = 1.0  # of a tick: one that comes later was held up here


class Awake(threading.Thread):
    """Counts for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__(name="awake", daemon=True)
        self.seconds = 0.0

    def run(self) -> None:
        """Count."""
        previous = time.monotonic()
        while True:
            time.sleep(TICK_S)
            now = time.monotonic()
            self.seconds += min(now - previous, MOST_S)
            previous = now


@functools.cache
def _counting(_process: int) -> Awake:
    awake = Awake()
    awake.start()
    return awake


def awake_s() -> float:
    """Return how many seconds this process was awake since it was asked first."""
    return _counting(os.getpid()).seconds
