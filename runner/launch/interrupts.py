"""Ctrl-C and the campaign's time limit, while runs go on."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from node.causes import Cause
from runner.base.log_file import readers_end
from runner.folder.attempt import RunFolder


class Interrupts:
    """Ctrl-C: once ends the runs on every node and keeps all, twice does not wait for that.

    `limit_s` does what one Ctrl-C does, so many seconds after `handled` began. Threads begin and
    end runs while a signal's handler looks at them: no lock, for it would wait for itself.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self.count = 0
        self.limit_s = limit_s
        self.expired = False
        self._running: dict[Path, RunFolder] = {}

    def expire(self) -> None:
        """End the campaign: its time is up."""
        self.expired = True
        self._halt()

    @property
    def over(self) -> bool:
        """Whether no further run is to start."""
        return self.count > 0 or self.expired

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.count += 1
        self._halt()

    @property
    def running(self) -> list[RunFolder]:
        """What runs now."""
        return list(self._running.values())

    @contextmanager
    def watching(self, run: RunFolder) -> Iterator[None]:
        """Note that a run goes on while the block lasts; what came before counts for it, too."""
        self._running[run.path] = run
        if self.over:
            self._halt()
        try:
            yield
        finally:
            del self._running[run.path]

    def _halt(self) -> None:
        by = "by Ctrl-C" if self.count else f"after --stop-after {self.limit_s:g}"
        for run in self.running:
            run.ask_to_halt(Cause.INTERRUPTED, f"stopped {by}")

    def once(self) -> bool:
        """Return whether the user wants to stop."""
        return self.count > 0

    def twice(self) -> bool:
        """Return whether the user will not wait."""
        return self.count > 1

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM while a campaign runs, which outlives its terminal.

        What bench starts meanwhile outlives it, too.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self) for number in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        timer = threading.Timer(self.limit_s or 0.0, self.expire)
        timer.daemon = True
        if self.limit_s is not None:
            timer.start()
        try:
            with readers_end(self.twice):
                yield
        finally:
            timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)
