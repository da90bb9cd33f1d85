"""The logs of one run as a Measurement: the one reader of `parse`, `import` and `collect`.

Of several logs, the nodes' of one run: they are taken by their first iteration, of those that begin
alike the one with the most lines first. Each adds its lines beyond the highest iteration that those
before it reached. So an iteration that several nodes logged is one line, and a node that goes on
where another ended extends it: 1 to 31 and 20 to 50 are 50 lines. Of one log every line is a logged
line: a run that went back to a checkpoint did the work again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.logs.decoding import line_end, line_start, newlines, placed_lines
from runner.logs.kind import Kind, Readers
from runner.logs.log_metadata import UTILISATION, largest, memory_of
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import whole_number
from runner.logs.patterns import compiled
from runner.logs.run_sizes import TRAIN_ITERS, UNKNOWN, Known
from runner.terms.record import Interval, Measurement, Place, Utilisation, missing_in_all

# What a line says of an evaluation or a checkpoint, between two steps.
_PAUSE = compiled(r"(?i)\b(?:eval|valid|val[ _]|checkpoint|sav(?:ed|ing)\b)")


class ReadLog:
    """One log, read by one parser: of several runs that start over in it the last one.

    A run starts over where the iteration falls to the first one of the run before it, or below. One
    that goes on from a checkpoint behind that is the same run, which did some of its work again.
    `begun` counts the runs that start over, `runs` how often the iteration fell, and one more.
    """

    def __init__(self, make: Callable[[], Kind], sizes: Known, rank: int) -> None:
        self.parser = make()
        self.rank = rank
        self.steps: list[LoggedStep] = []
        self.places: list[Place] = []
        self.begun = self.runs = 1
        self._sizes = sizes
        self._paused = False  # since the last step's line
        self._first_step: int | None = None
        self._last_step = 0

    def feed(self, at: int, text: bytes) -> None:
        """Read whole lines of it, with `at` bytes before them."""
        steps = self.parser.feed(text)
        sizes = self._sizes.or_by(self.parser.notes.facts)
        for step in (*self.steps[-1:], *steps):  # what the last one lacked may be on these lines
            if not self.parser.own_rate and sizes.global_batch_size and step.step_time_ms:
                step.samples_per_s = None  # of DeepSpeed's own train_batch_size
            sizes.complete(step)
        cut = self._restart(steps)
        since = None
        if cut is not None:
            steps = steps[cut:]
            since = line_start(text, steps[0].offset)
            self.steps, self.places = [], []
        self.parser.notes.settle(text, since)
        self.steps += steps
        before = 0
        for step in steps:
            begin, end = line_start(text, step.offset), line_end(text, step.offset) + 1
            paused = self._paused or bool(_PAUSE.search(text, before, max(before, begin)))
            self.places.append(Place(step.iteration, at + step.offset, at + end, paused))
            before, self._paused = end, False
        self._paused = self._paused or bool(_PAUSE.search(text, before))

    def remarks(self, log: str) -> Iterator[str]:
        """Say what of the log, which people know by that name, is not in the figures."""
        if self.begun > 1:
            yield f"{log} holds {self.begun} runs; the last one is read"
        yield from sorted(self.parser.notes.remarks)

    @property
    def overflows(self) -> int:
        """Iterations skipped in the last run, by DeepSpeed's lines."""
        return sum(step.overflows for step in self.steps) + self.parser.overflows.pending

    def intervals(self) -> list[Interval]:
        """Return the steps; OVERFLOW lines count where the trainer's own counter says less."""
        untold = sum(step.overflows - step.skipped for step in self.steps) > 0
        return [step.interval(step.overflows if untold else step.skipped) for step in self.steps]

    def _restart(self, steps: Sequence[LoggedStep]) -> int | None:
        """Return the step with which the last run that starts over begins; None where none does."""
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


@dataclass(frozen=True)
class Share:
    """The lines of a log that count: those of iterations beyond `beyond`.

    `log` and `before` are places among the logs; `before` is the log that has the others of its
    lines, None where all of them count.
    """

    log: int
    beyond: int = -1
    before: int | None = None


@dataclass(frozen=True)
class ReadLogs:
    """What the logs of one run say together, and the chosen parser's reading of each (none where
    no step was logged); `shares` has what each of those with a step adds, by its place in `logs`.
    """

    measurement: Measurement
    logs: Sequence[ReadLog] = ()
    shares: Sequence[Share] = ()


def measure(
    readers: Readers, logs: Mapping[int, Iterable[bytes]], sizes: Known = UNKNOWN
) -> Measurement:
    """Read all nodes' logs (node rank to byte blocks) with these kinds of lines.

    `sizes` turns tokens/s into samples/s. The first kind that any node logged counts, for all
    nodes.
    """
    return read_logs(readers, logs, sizes).measurement


def read_logs(
    readers: Readers, logs: Mapping[int, Iterable[bytes]], sizes: Known = UNKNOWN
) -> ReadLogs:
    """Read them as `measure` does."""
    readings: dict[str, list[ReadLog]] = {kind: [] for kind in readers}
    for rank, content in sorted(logs.items()):
        for kind, make in readers.items():
            readings[kind].append(ReadLog(make, sizes, rank))
        for at, text in placed_lines(content):
            for parts in readings.values():
                parts[-1].feed(at, newlines(text))
    chosen = next((parts for parts in readings.values() if any(log.steps for log in parts)), [])
    intervals = [log.intervals() for log in chosen]
    joined = list(_shares(intervals))
    steps = [
        step for share in joined for step in intervals[share.log] if step.iteration > share.beyond
    ]
    alike = any(share.before is not None for share in joined)
    facts: dict[str, str] = {}
    every = [log.parser.notes for parts in readings.values() for log in parts]
    for notes in every:
        facts |= notes.facts
    if any(log.begun > 1 for log in chosen):  # the others' are of several runs
        every = [log.parser.notes for log in chosen]
    validation = {
        iteration: loss for log in chosen for iteration, loss in log.parser.notes.validation.items()
    }
    remarks = {remark for log in chosen for remark in log.remarks("its log")}
    memory: dict[str, Any] = {**memory_of(every)}
    busiest = largest(notes.peaks.get(UTILISATION) for notes in every)
    measured = Measurement(
        intervals=tuple(steps),
        **memory,
        utilisation=None if busiest is None else Utilisation(busiest, "log"),
        padded_vocab_size=whole_number(facts.get("padded_vocab_size")) or None,
        facts=facts,
        perplexity=next((n.perplexity for n in reversed(every) if n.perplexity), None),
        unmeasured=sum(step.unmeasured for log in chosen for step in log.steps),
        loss_kind=chosen[0].parser.loss_kind if chosen else "",
        contradicted=tuple(sorted(remarks)),
        untimed=chosen[0].parser.untimed if chosen else "",
        logged_holds=chosen[0].parser.holds if chosen else "",
        validation=tuple(sorted(validation.items())),
        compile_s=largest(notes.compile_s for notes in every),
        missing=missing_in_all(log.parser.missing for parts in readings.values() for log in parts),
        train_iters=whole_number(facts.get(TRAIN_ITERS)) or None,
        places={log.rank: tuple(log.places) for log in chosen if log.places},
        by_node={
            log.rank: tuple(lines) for log, lines in zip(chosen, intervals, strict=True) if lines
        }
        if alike
        else {},
    )
    return ReadLogs(measured, chosen, joined)


def _shares(logs: Sequence[Sequence[Interval]]) -> Iterator[Share]:
    """Yield what each log adds, in the order of the run; logs without a line are left out."""
    logged = [at for at, steps in enumerate(logs) if steps]
    reached, by = 0, None
    for at in sorted(logged, key=lambda at: (logs[at][0].iteration, -len(logs[at]))):
        again = by is not None and logs[at][0].iteration <= reached
        yield Share(at, reached, by) if again else Share(at)
        highest = max(step.iteration for step in logs[at])
        if highest > reached:
            reached, by = highest, at
