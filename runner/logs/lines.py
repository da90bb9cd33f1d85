"""Parsers that read line by line: only lines that hold their marker are cut out of a block."""

import re
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from runner.logs.batch import Batch, LoggedStep, Windows, from_rows
from runner.logs.decoding import line_end, line_start
from runner.logs.kind import Kind


class LineParser(Kind):
    """One family: its lines hold `marker`, and `head` begins each of its records on them.

    One newline may end two records (a writer's newline was torn off), so a record reaches to the
    next head or to the line's end. `closed` is False where it may be half a record.
    """

    marker: bytes
    head: re.Pattern[bytes]

    def __init__(self) -> None:
        super().__init__()
        self.windows = Windows()

    @abstractmethod
    def row(self, head: re.Match[bytes], rest: bytes, closed: bool) -> LoggedStep | None:
        """Read the step of one record: its head, and what follows on the line. None: it is none."""

    def other(self, text: bytes) -> None:  # most families look for nothing else
        """Read what else a family looks for in whole lines."""

    def feed(self, text: bytes) -> Batch | None:
        """Read the steps in whole lines of a log; None where there is none."""
        self.notes.scan(text)
        self.windows.log_interval = self.notes.log_interval
        self.other(text)
        rows, places = [], []
        for at, head, rest, closed in self._records(text):
            row = self.row(head, rest, closed)
            if row is not None:
                rows.append(row)
                places.append(at)
        overflows = self.overflows.find(text, np.array(places, np.int64))
        if not rows:
            return None
        for row, count in zip(rows, overflows.tolist(), strict=True):
            row.overflows = count
        return from_rows(rows, self.windows)

    def _records(self, text: bytes) -> Iterator[tuple[int, re.Match[bytes], bytes, bool]]:
        at, end = text.find(self.marker), 0
        while at >= 0:
            begin = line_start(text, at, end)
            end = line_end(text, at)
            line = text[begin:end]
            heads = list(self.head.finditer(line))
            for number, head in enumerate(heads, 1):
                last = number == len(heads)
                stop = len(line) if last else heads[number].start()
                closed = not last or end < len(text)
                yield begin + head.start(), head, line[head.end() : stop], closed
            at = text.find(self.marker, end)
