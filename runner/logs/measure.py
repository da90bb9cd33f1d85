"""The logs of one run of a campaign as a Measurement: what `System.parse` gives."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from runner.logs.batch import Batch
from runner.logs.decoding import whole_lines
from runner.logs.kind import Kind, Readers
from runner.logs.known import TRAIN_ITERS, UNKNOWN, Known
from runner.logs.last_run import LastRun, several
from runner.logs.nodes import Extent, shares
from runner.logs.numbers import whole
from runner.terms.record import Interval, LossKind, Measurement, Utilisation, missing_in_all


@dataclass
class _Reading:
    """One log, read by one parser."""

    run: LastRun
    known: Known
    steps: list[Interval] = field(default_factory=list)
    unmeasured: int = 0
    overflows: list[int] = field(default_factory=list)

    @property
    def parser(self) -> Kind:
        """What reads it."""
        return self.run.parser

    def feed(self, text: bytes) -> None:
        """Read whole lines of it; where a run begins anew, what came before is forgotten."""
        anew, batch = self.run.feed(text)
        if anew:
            self.steps, self.overflows, self.unmeasured = [], [], 0
        if batch is not None:
            self.add(batch)

    def add(self, batch: Batch) -> None:
        """Add the steps of a block."""
        known = self.known.or_by(self.parser.notes.facts)
        self.steps += known.complete(batch).intervals()
        self.overflows += batch.overflows.tolist()
        self.unmeasured += batch.unmeasured

    def remarks(self) -> Iterator[str]:
        """Say what of the log is not in the figures."""
        yield from self.parser.notes.remarks
        if self.run.begun > 1:
            yield several(self.run.begun, "its log")

    def intervals(self) -> list[Interval]:
        """Return the steps; OVERFLOW lines count where the trainer's own counter says less."""
        if sum(self.overflows) <= sum(step.skipped for step in self.steps):
            return self.steps
        pairs = zip(self.steps, self.overflows, strict=True)
        return [replace(step, skipped=skipped) for step, skipped in pairs]


def measure(
    readers: Readers, logs: Mapping[int, Iterable[bytes]], known: Known = UNKNOWN
) -> Measurement:
    """Read all nodes' logs (node rank to byte blocks) with these kinds of lines.

    `known` turns tokens/s into samples/s. The first kind that any node logged counts, for all
    nodes. How their logs become one sequence: nodes.py.
    """
    readings: dict[str, list[_Reading]] = {kind: [] for kind in readers}
    for rank in sorted(logs):
        each = {kind: _Reading(LastRun(make), known) for kind, make in readers.items()}
        for text in whole_lines(logs[rank]):
            for reading in each.values():
                reading.feed(text)
        for kind, reading in each.items():
            readings[kind].append(reading)
    nodes: dict[int, list[Interval]] = {}
    unmeasured = 0
    loss_kind: LossKind = ""
    validation: dict[int, float] = {}
    chosen: list[_Reading] = []
    for parts in readings.values():
        each_one = zip(sorted(logs), parts, strict=True)
        nodes = {rank: steps for rank, reading in each_one if (steps := reading.intervals())}
        if nodes:
            unmeasured = sum(reading.unmeasured for reading in parts)
            loss_kind = parts[0].parser.loss_kind
            chosen = parts
            for reading in parts:
                validation |= reading.parser.notes.validation
            break
    steps, alike = _once(nodes)
    facts: dict[str, str] = {}
    every = [reading.parser.notes for parts in readings.values() for reading in parts]
    for notes in every:
        facts |= notes.facts
    if any(reading.run.begun > 1 for reading in chosen):  # the others' are of several runs
        every = [reading.parser.notes for reading in chosen]
    busiest = _largest([notes.devices.utilisation_percent for notes in every])
    return Measurement(
        intervals=tuple(steps),
        memory_allocated_mib=_largest([notes.memory_allocated_mib for notes in every]),
        memory_reserved_mib=_largest([notes.memory_reserved_mib for notes in every]),
        memory_used_mib=_largest([notes.memory_used_mib for notes in every]),
        memory_rss_mib=_largest([notes.memory_rss_mib for notes in every]),
        utilisation=None if busiest is None else Utilisation(busiest, "log"),
        padded_vocab_size=whole(facts.get("padded_vocab_size")) or None,
        facts=facts,
        perplexity=next((n.perplexity for n in reversed(every) if n.perplexity), None),
        unmeasured=unmeasured,
        loss_kind=loss_kind,
        contradicted=tuple(sorted({said for reading in chosen for said in reading.remarks()})),
        validation=tuple(sorted(validation.items())),
        compile_s=_largest([notes.compile_s for notes in every]),
        missing=missing_in_all(
            part.parser.missing for parts in readings.values() for part in parts
        ),
        train_iters=whole(facts.get(TRAIN_ITERS)) or None,
        by_node={rank: tuple(intervals) for rank, intervals in nodes.items()} if alike else {},
    )


def _once(nodes: Mapping[int, list[Interval]]) -> tuple[list[Interval], bool]:
    """Return the run's steps, and whether several nodes logged the same iterations."""
    logs = list(nodes.values())
    extents = [
        Extent(len(log), log[0].iteration, max(step.iteration for step in log)) for log in logs
    ]
    taken = list(shares(extents))
    steps = [step for share in taken for step in logs[share.log] if step.iteration > share.beyond]
    return steps, any(share.before is not None for share in taken)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
