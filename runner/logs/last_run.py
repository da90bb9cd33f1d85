"""The last run of a log: of several that begin anew in one file no figure is made of two.

A run begins anew where the iteration falls to the first one of the run before it, or below. One
that goes on from a checkpoint behind that is the same run, which did some of its work again.
"""

from collections.abc import Callable
from copy import deepcopy

import numpy as np

from runner.logs.batch import Batch, Ints
from runner.logs.decoding import line_start
from runner.logs.kind import Kind


class LastRun:
    """Feeds a parser of one log, and forgets what it read where a run begins anew.

    `begun` counts those runs, `before` how often the iteration had fallen until the last began.
    """

    def __init__(self, make: Callable[[], Kind]) -> None:
        self.parser = make()
        self.begun = 1
        self.before = 0
        self._fallen = 0
        self._first: int | None = None
        self._last = 0

    def feed(self, text: bytes) -> tuple[bool, Batch | None]:
        """Return whether a run begins anew in whole lines of the log, and the last one's steps."""
        state = deepcopy(self.parser) if self.parser.places_known else None
        batch = self.parser.feed(text)
        row = None if batch is None else self._anew(batch.iteration)
        if batch is None or row is None:
            return False, batch
        if state is None or batch.places is None:
            return True, batch.rows(np.arange(len(batch)) >= row)
        cut = line_start(text, int(batch.places[row]))
        self.parser = state
        self.parser.feed(text[:cut])  # what the trainer says before its first step
        self.parser.forget()
        return True, self.parser.feed(text[cut:])

    def _anew(self, iteration: Ints) -> int | None:
        """Return the row with which the last of such runs begins; None where none does."""
        if self._first is None:
            self._first, self._last = int(iteration[0]), -1
        before = np.concatenate(([self._last], iteration[:-1]))
        found = None
        for row in np.flatnonzero(iteration <= before).tolist():
            self._fallen += 1
            now = int(iteration[row])
            if now < self._first or (now == self._first and before[row] > now):
                self._first, found = now, row
                self.begun += 1
                self.before = self._fallen
        self._last = int(iteration[-1])
        return found


def several(begun: int, log: str) -> str:
    """Say which run of a log was read, where it holds several."""
    return f"{log} holds {begun} runs that begin anew, of which the last is read"
