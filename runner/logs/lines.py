"""Parsers that read line by line: only lines that hold their marker are cut out of a block."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator

from runner.logs import overflow
from runner.logs.decoding import line_end, newlines, places
from runner.logs.kind import Kind
from runner.logs.logged_step import LoggedStep, Windows

# A number as `%f`, `%g` and Python print it; for patterns that ignore case.
PRINTED = rb"(-?[\d.]+(?:e[+-]?\d+)?|-?nan|-?inf)"


class LineParser(Kind):
    """One family: its lines hold `marker`, and `head` begins each of its records on them.

    One newline may end two records (a writer's newline was torn off), so a record reaches to the
    next head or to the line's end. `closed` is False where it may be half a record. `context` are
    marks of other lines that say something of the steps behind them; `look` reads those.
    """

    marker: bytes
    head: re.Pattern[bytes]
    context: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.windows = Windows()

    @abstractmethod
    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read the step of one record: its head, and what follows on the line; None: no step."""

    def look(self, text: bytes, at: int) -> None:  # most families have no context
        """Read the line of a mark of `context`, which begins at `at`, in the log's order."""

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read the steps in whole lines of a log."""
        text = newlines(text)
        marks = self.notes.scan(text)
        self.windows.log_interval = self.notes.log_interval
        skips = [at for at, mark in reversed(marks) if mark in overflow.MARKS]
        context = sorted((at for mark in self.context for at in places(text, mark)), reverse=True)
        steps = []
        for at, head, tail, closed in self._records(text):
            _see(text, at, skips, self.overflows.see)
            _see(text, at, context, self.look)
            step = self.row(head, tail, closed)
            if step is not None:
                if not step.iterations:
                    step.iterations = self.windows.cover(step.iteration)
                self.windows.previous = step.iteration
                step.drop_unmeasured()
                step.overflows, step.offset = self.overflows.untold(), at
                steps.append(step)
        _see(text, len(text), skips, self.overflows.see)
        _see(text, len(text), context, self.look)
        return steps

    def _records(self, text: bytes) -> Iterator[tuple[int, re.Match[bytes], bytes, bool]]:
        at, end = text.find(self.marker), 0
        while at >= 0:
            begin = text.rfind(b"\n", end, at) + 1 or end
            end = line_end(text, at)
            line = text[begin:end]
            heads = list(self.head.finditer(line))
            for number, head in enumerate(heads, 1):
                is_last = number == len(heads)
                stop = len(line) if is_last else heads[number].start()
                closed = not is_last or end < len(text)
                yield begin + head.start(), head, line[head.end() : stop], closed
            at = text.find(self.marker, end)


def _see(text: bytes, end: int, marks: list[int], read: Callable[[bytes, int], None]) -> None:
    """Read the lines of the marks up to a place; of those that are left the first is last."""
    while marks and marks[-1] <= end:
        read(text, marks.pop())


def fields_of(tail: bytes, closed: bool) -> dict[bytes, bytes]:
    """Return what stands as `name: value` between ` | `, without a last one that may be half."""
    parts = tail.rstrip().split(b" | ")
    whole_ones = parts if closed else parts[:-1]
    return dict(field.split(b": ", 1) for field in whole_ones if b": " in field)
