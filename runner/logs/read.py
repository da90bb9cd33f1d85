"""Logs from anywhere to one report: which system, how many steps, how fast. Reads files only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from node.files import open_plain
from runner.base.text import blocks
from runner.logs import recognise
from runner.logs.decoding import whole_lines
from runner.logs.kind import Kind, Readers
from runner.logs.kinds import KINDS, kinds_of, readers_of_family
from runner.logs.last_run import LastRun
from runner.logs.log_metadata import Notes, memory_of
from runner.logs.nodes import Warmup, shares
from runner.logs.parse_notes import Tokens, explained
from runner.logs.run_sizes import UNKNOWN, Known
from runner.logs.running_sums import RunningSums
from runner.logs.totals import LogTotals
from runner.terms.record import missing_in_all

BLOCK = 1 << 21  # bytes
SAMPLE = 1 << 18  # bytes at a log's beginning and end that say what it is


@dataclass
class Reading:
    """What all logs of one run say together."""

    system: str | None
    why: str
    kind: str | None
    summary: LogTotals
    memory: Mapping[str, float | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    validation: dict[int, float] = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)


@dataclass
class _Log:
    """One log and how one kind of parser read it."""

    path: Path
    run: LastRun
    summary: LogTotals

    @property
    def notes(self) -> Notes:
        """What it says beside its steps."""
        return self.run.parser.notes


def read(
    paths: Sequence[Path],
    system: str | None = None,
    *,
    family: str | None = None,
    global_batch_size: int | None = None,
    sizes: Known = UNKNOWN,
    warmup_iters: int | None = None,
    readers: Readers | None = None,
) -> Reading:
    """Read logs as the nodes of one run. What `system` and `family` leave open their lines tell.

    `readers` are those of a matrix's own patterns, in place of all families.

    Without `warmup_iters` each run's first line is left out, where another one remains.
    """
    samples = [_sample(path) for path in paths]
    if readers is not None:
        known_kinds: Readers = readers
    elif family is not None:
        known_kinds = readers_of_family(family)
    else:
        known_kinds = {name: KINDS[name] for name in kinds_of(system)}
    kinds = _order(known_kinds, samples)
    logs: list[_Log] = []
    kind = None
    for kind in kinds:
        empty = LogTotals(Warmup(warmup_iters), global_batch_size, known_kinds[kind]().own_rate)
        logs = [_read_log(path, known_kinds[kind], empty, sizes) for path in paths]
        if any(log.summary.logged_lines for log in logs):
            break
    else:
        kind = None
    signs = set().union(*(recognise.signs(sample) for sample in samples))
    signs |= set().union(*(recognise.signs(log.notes.first_step) for log in logs))
    detected, why = recognise.system_of(kind, signs)
    if readers is not None:
        why = f"read by {logs[0].run.parser.says}"
    elif system is not None:
        why = "named by --system"
    elif kind is not None:
        why = f"{logs[0].run.parser.says} {why}".strip()
    summary = logs[0].summary
    if len(logs) > 1:
        summary = _joined(logs, known_kinds[kind or kinds[-1]], empty, sizes)
    reading = Reading(system or detected, why, kind, summary, notes=[*_repeated(logs)])
    _together(reading, logs)
    missing = missing_in_all(log.run.parser.missing for log in logs)
    reading.notes += missing.values() if readers is not None else ()
    if reading.summary.doubtful:
        reading.summary.samples_per_s = RunningSums(rate=True)
    if kind is not None:
        reading.tokens = Tokens.of(reading.summary, sizes.or_by(reading.facts))
        validated = bool(reading.validation)
        reading.notes += explained(
            type(logs[0].run.parser),
            summary,
            reading.tokens,
            sizes,
            reading.facts,
            validated=validated,
        )
    return reading


def _sample(path: Path) -> bytes:
    with open_plain(path) as stream:
        head = stream.read(SAMPLE)
        end = stream.seek(0, 2)
        stream.seek(max(len(head), end - SAMPLE))
        return head + b"\n" + stream.read()


def _order(kinds: Readers, samples: Sequence[bytes]) -> list[str]:
    """Order the kinds, with the first that a sample has steps of in front: it will do in one pass.

    DeepSpeed's own lines stay behind: Megatron's may be between the samples.
    """
    for kind in (kind for kind in kinds if kinds[kind]().own_rate):
        for sample in samples:
            parser = kinds[kind]()
            if any(parser.feed(text) for text in whole_lines([sample])):
                return [kind, *(candidate for candidate in kinds if candidate != kind)]
    return list(kinds)


def _read_log(path: Path, kind: Callable[[], Kind], before: LogTotals, sizes: Known) -> _Log:
    """Read a log, whose lines follow those of `before`."""
    run = LastRun(kind, sizes)
    summary = deepcopy(before)
    for text in whole_lines(blocks(path, BLOCK)):
        again, steps = run.feed(text)
        if again:
            summary = deepcopy(before)
            summary.runs += run.before
        summary.add(steps)
    return _Log(path, run, summary)


def _joined(
    logs: Sequence[_Log], kind: Callable[[], Kind], empty: LogTotals, sizes: Known
) -> LogTotals:
    """Read several logs once more, one behind the other, by the rule of nodes.py."""
    summary = empty
    for share in shares([log.summary.extent for log in logs]):
        log = logs[share.log]
        if log.summary.highest_iteration <= share.beyond:
            continue
        summary.beyond, summary.warmup = share.beyond, empty.warmup
        if share.before is not None:  # it goes on where that log ended: no run begins there
            summary.warmup = logs[share.before].summary.warmup
        summary = _read_log(log.path, kind, summary, sizes).summary
    summary.gap = max((log.summary.gap for log in logs), default=0)  # none between logs
    return summary


def _repeated(logs: Sequence[_Log]) -> Iterator[str]:
    """Say which lines are another log's, too."""
    for share in shares([log.summary.extent for log in logs]):
        if share.before is not None:
            log, before = logs[share.log], logs[share.before]
            up_to = f" up to {share.beyond}" if log.summary.highest_iteration > share.beyond else ""
            yield f"{log.path} repeats the steps of {before.path}{up_to}"


def _together(reading: Reading, logs: Sequence[_Log]) -> None:
    """Put together what the logs say beside their steps."""
    reading.summary.count_first()
    # DeepSpeed's lines are printed by rank 0, a Megatron line by the last rank: not the same log.
    overflows = max((log.run.parser.overflows.of_run for log in logs), default=0)
    if overflows > reading.summary.skipped and reading.summary.logged_lines:
        reading.notes.append(
            f"{overflows} iterations skipped by DeepSpeed's lines, {reading.summary.skipped} by the"
            " trainer's own counter"
        )
        reading.summary.skipped = overflows
    for log in logs:
        reading.facts |= log.notes.facts
        reading.validation |= log.notes.validation
        reading.notes += [
            remark for remark in log.run.remarks(str(log.path)) if remark not in reading.notes
        ]
    reading.memory = memory_of([log.notes for log in logs])
