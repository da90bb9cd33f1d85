"""The last run of a log: of several that start over in one file no figure is made of two.

A run starts over where the iteration falls to the first one of the run before it, or below. One
that goes on from a checkpoint behind that is the same run, which did some of its work again.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy

from runner.logs.decoding import line_start, newlines
from runner.logs.kind import Kind
from runner.logs.logged_step import LoggedStep
from runner.logs.run_sizes import Known


class LastRun:
    """One log, read by one parser, which forgets what it read where a run starts over.

    `sizes` are those of the run that its lines do not say. `begun` counts the runs that
    start over, `runs` how often the iteration fell, and one more.
    """

    def __init__(self, make: Callable[[], Kind], sizes: Known) -> None:
        self.parser = make()
        self.begun = 1
        self.runs = 1
        self._sizes = sizes
        self._first_step: int | None = None
        self._last_step = 0
        self._last: list[LoggedStep] = []

    def feed(self, text: bytes) -> tuple[bool, list[LoggedStep]]:
        """Return whether a run starts over in whole lines of the log, and the last one's steps."""
        again, steps = self._feed(newlines(text))
        sizes = self._sizes.or_by(self.parser.notes.facts)
        open_steps, self._last = [*self._last, *steps], steps[-1:] or self._last
        for step in open_steps:  # what the last one lacked may stand on lines of this text
            if not self.parser.own_rate and sizes.global_batch_size and step.step_time_ms:
                step.samples_per_s = None  # of DeepSpeed's own train_batch_size
            sizes.complete(step)
        return again, steps

    def remarks(self, log: str) -> Iterator[str]:
        """Say what of the log, which people know by that name, is not in the figures."""
        if self.begun > 1:
            yield f"{log} holds {self.begun} runs; the last one is read"
        yield from sorted(self.parser.notes.remarks)

    def _feed(self, text: bytes) -> tuple[bool, list[LoggedStep]]:
        state = deepcopy(self.parser)
        steps = self.parser.feed(text)
        row = self._anew(steps)
        if row is None:
            return False, steps
        cut = line_start(text, steps[row].offset)
        self.parser = state
        self.parser.feed(text[:cut])  # what the trainer says before its first step
        self.parser.forget()
        steps = self.parser.feed(text[cut:])
        for step in steps:
            step.offset += cut
        return True, steps

    def _anew(self, steps: Sequence[LoggedStep]) -> int | None:
        """Return the step with which the last of such runs begins; None where none does."""
        cut = None
        for row, step in enumerate(steps):
            now = step.iteration
            if self._first_step is None:
                self._first_step = now
            elif now <= self._last_step:
                self.runs += 1
                if now < self._first_step or now == self._first_step != self._last_step:
                    self._first_step, cut = now, row
                    self.begun += 1
            self._last_step = now
        return cut
