"""Parsers that read line by line: only lines that hold their marker are cut out of a block."""

import re
from collections.abc import Callable, Iterator, Mapping

from runner.logs import overflow
from runner.logs.decoding import line_end, newlines, places
from runner.logs.kind import Kind
from runner.logs.log_metadata import Fact
from runner.logs.logged_step import LoggedStep, Windows
from runner.logs.numbers import grouped, whole_number
from runner.logs.run_sizes import TRAIN_ITERS

# A number as `%f`, `%g` and Python print it; for patterns that ignore case.
PRINTED = rb"(-?[\d.]+(?:e[+-]?\d+)?|-?nan|-?inf)"
LOSS, NORM, VALIDATION = (
    rb"(?P<%b>" % name + PRINTED[1:] for name in (b"loss", b"grad_norm", b"validation_loss")
)
WORD = rb"(?:\b|(?<=\dm))"  # the begin of a word, which may follow a colour
_Beside = tuple[int, Callable[[bytes, int], None]]  # where a line is, and what reads it
_COUNTS = ("global_batch", "skipped")
_FIGURES = (
    *("step_time_ms", "samples_per_s", "tokens_per_s", "device_tokens_per_s"),
    *("grad_norm", "tflop_per_s"),
)


class LineParser(Kind):
    """One family: its lines hold `marker`, and `head` begins each of its records on them.

    One newline may end two records (a writer's newline was torn off), so a record reaches to the
    next head or to the line's end. `fields` are looked for behind the head; the names of their
    groups and of the head's say what they are (`step`). `facts` are other lines that say something
    of the run, and `context` marks of those that `look` reads.
    """

    marker: bytes
    head: re.Pattern[bytes]
    fields: tuple[re.Pattern[bytes], ...] = ()
    facts: tuple[Fact, ...] = ()
    context: tuple[bytes, ...] = ()
    read: Callable[[bytes | None], float | None] = staticmethod(grouped)

    def __init__(self) -> None:
        super().__init__()
        self.windows = Windows()

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read the step of one record: its head, and what follows on the line; None: no step.

        `closed` is False where it may be half a record.
        """
        return self.step_of(self.words(head, tail, closed))

    def words(self, head: re.Match[bytes], tail: bytes, closed: bool) -> dict[str, bytes | None]:
        """Return what the groups of the head and of the fields behind it match."""
        words = head.groupdict()
        text = tail + b"\n" if closed else tail
        for each in self.fields:
            if match := each.search(text):
                words |= match.groupdict()
        return words

    def step_of(self, words: Mapping[str, bytes | None], iterations: int = 0) -> LoggedStep | None:
        """Return a step of a line's words: `iteration`, `of` as many, the figures of LoggedStep by
        their names, `step_time_s`, and peaks of memory.
        """
        iteration = whole_number(words["iteration"])
        if iteration is None:
            return None
        step = LoggedStep(iteration + self.from_zero, iterations=iterations)
        for name, text in words.items():
            if name in _FIGURES:
                setattr(step, name, self.read(text))
            elif name in _COUNTS:
                setattr(step, name, whole_number(text) or 0)
            elif name == "step_time_s" and (seconds := self.read(text)) is not None:
                step.step_time_ms = seconds * 1000
            elif name == "loss" and text is not None:
                step.loss = self.read(text)
                step.nan = int(step.loss is None)
            elif name == "of":
                self.notes.facts[TRAIN_ITERS] = str(whole_number(text) or 0)
            elif name != "iteration":
                self.notes.take({name: text})
        return step

    def look(self, text: bytes, at: int) -> None:
        """Read the line of a mark of `facts` or `context`, which begins at `at`, in their order."""
        for row in self.facts:
            if text.startswith(row.mark, at) and (match := row.found(text, at)):
                self.notes.take(match.groupdict())

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read the steps in whole lines of a log."""
        text = newlines(text)
        marks = self.notes.scan(text)
        self.windows.log_interval = self.notes.log_interval
        beside: list[_Beside] = [
            (at, self.overflows.see) for at, mark in marks if mark in overflow.MARKS
        ]
        for mark in {*self.context, *(row.mark for row in self.facts)}:
            beside += [(at, self.look) for at in places(text, mark)]
        beside.sort(key=lambda each: -each[0])
        steps = []
        for at, head, tail, closed in self._records(text):
            self._read_beside(text, at, beside)
            step = self.row(head, tail, closed)
            if step is not None:
                if not step.iterations:
                    step.iterations = self.windows.cover(step.iteration)
                self.windows.previous = step.iteration
                step.drop_unmeasured()
                step.overflows, step.offset = self.overflows.untold(), at
                steps.append(step)
        self._read_beside(text, len(text), beside)
        return steps

    def _read_beside(self, text: bytes, end: int, beside: list[_Beside]) -> None:
        """Read the lines of the marks up to a place; of those that are left the first is last."""
        while beside and beside[-1][0] <= end:
            self.notes.at, read = beside.pop()
            read(text, self.notes.at)
        self.notes.at = end

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


def named(names: Mapping[bytes, str], fields: Mapping[bytes, bytes]) -> dict[str, bytes | None]:
    """Return a line's fields by the names that a step has for them."""
    return {name: fields[label] for label, name in names.items() if label in fields}


def fields_of(tail: bytes, closed: bool) -> dict[bytes, bytes]:
    """Return what stands as `name: value` between ` | `, without a last one that may be half."""
    parts = tail.rstrip().split(b" | ")
    whole_ones = parts if closed else parts[:-1]
    return dict(field.split(b": ", 1) for field in whole_ones if b": " in field)
