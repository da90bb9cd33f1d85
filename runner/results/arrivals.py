"""When a log had how many bytes, by the file that its node wrote beside it (node/arrivals.py), and
the time of its steps by that: one clock for all trainers.

The file comes from a node or an archive: where it says what cannot be, there are no arrivals, with
a reason.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from node.arrivals import MOST_BYTES
from runner.figures.counted_steps import measured, samples_per_s, warmup_of
from runner.folder import names
from runner.folder.packed import read_part
from runner.logs.numbers import number
from runner.terms.record import Interval, Place, Record

_BEGAN = re.compile(rb"began (\d{1,10}\.\d{3}) within_ms (\d{1,4})\n")
_ENTRY = re.compile(rb"(\d{1,12}\.\d) (\d{1,15})(?: (\d{1,5}))?\n")
FEWEST_BURSTS = 8  # that are better than the log's own time, and
FEWEST_ERRORS = 100  # of the first and last arrival, in the time of all steps
BUFFERED = "its lines came in too few bursts, buffered; start it unbuffered (python -u, stdbuf -oL)"
SPARE_BYTES = 1 << 20  # beyond its bound: what is noted between two looks at that


class Arrival(NamedTuple):
    """By when a log had `size` bytes: s by the file's clock, late by `error_s` at most."""

    at_s: float
    size: int
    error_s: float


class Arrivals(NamedTuple):
    """The arrivals of a log, in order; none with the reason in `missing`.

    `began` is when their clock did, by the node's own (epoch seconds).
    """

    began: float = 0.0
    entries: tuple[Arrival, ...] = ()
    missing: str = "its node noted no arrivals"


def arrivals_of(node: Path) -> Arrivals:
    """Read those of the log in a node's folder; a last entry that was torn is left out."""
    try:
        text = read_part(node, names.ARRIVALS)
        log_bytes = (node / names.LOG).stat().st_size
    except OSError as error:
        return Arrivals(missing=f"its arrivals cannot be read: {error.strerror}")
    over = (node / names.DONE).exists()  # else the log is brought a moment before its arrivals
    return read_arrivals(text, log_bytes, over=over) if text else Arrivals()


def read_arrivals(text: bytes, log_bytes: int, *, over: bool = True) -> Arrivals:
    """Read the arrivals of a log of so many bytes; of a run that is not over only up to there."""
    if len(text) > MOST_BYTES + SPARE_BYTES:
        return Arrivals(missing="its arrivals are more than a node writes")
    text = text[: text.rfind(b"\n") + 1]
    head = _BEGAN.match(text)
    if head is None:
        return Arrivals(missing="its arrivals do not begin as a node writes them")
    within_s = (number(head[2]) or 0.0) / 1000
    entries, end, before = [], head.end(), Arrival(0.0, 0, within_s)
    while match := _ENTRY.match(text, end):
        error_s = within_s if match[3] is None else (number(match[3]) or 0.0) / 1000
        at_ms, size, end = number(match[1]) or 0.0, int(number(match[2]) or 0), match.end()
        entry = Arrival(at_ms / 1000, size, error_s)
        if not over and entry.size > log_bytes:
            break
        if entry.at_s < before.at_s or not before.size < entry.size <= log_bytes:
            return Arrivals(missing="its arrivals go back, or beyond the log's end")
        entries.append(entry)
        before = entry
    if end < len(text) and over:
        return Arrivals(missing="its arrivals have a line that is no time and size")
    return Arrivals(number(head[1]) or 0.0, tuple(entries), "")


def moved(text: bytes, log: bytes, redacted: bytes) -> bytes:
    """Return the arrivals of a log for its redacted copy, whose lines have other lengths."""
    head, _, rest = text.partition(b"\n")
    ends, new_ends = _ends(log), _ends(redacted)
    lines = [head]
    for match in _ENTRY.finditer(rest):
        size = int(number(match[2]) or 0)
        line = min(bisect_right(ends, size), len(new_ends)) - 1
        end = new_ends[line + 1] - 1 if line + 1 < len(new_ends) else len(redacted)
        size = min(new_ends[line] + size - ends[line], end)
        lines.append(b" ".join([match[1], b"%d" % size, *([match[3]] if match[3] else [])]))
    return b"\n".join([*lines, b""])


def _ends(log: bytes) -> list[int]:
    return [0, *(line.end() for line in re.finditer(rb"\n", log))]


class Line(NamedTuple):
    """A logged step: when it came (s), with which of the arrivals, whether the log names an
    evaluation or a checkpoint between the step before and it, and by how much it may be late (s).
    """

    iteration: int
    at_s: float
    burst: int
    paused: bool
    error_s: float = 0.0


def by_arrivals(record: Record, logs: Mapping[int, Path]) -> Record:
    """Return a run, its steps timed by when their lines came; where they cannot be, as its log
    says.
    """
    steps = record.measurement.intervals
    for rank, places in record.measurement.places.items():
        if not (arrivals := arrivals_of(logs[rank].parent)).entries:
            continue
        lines = lines_of(places, arrivals.entries)[-len(steps) :]
        timed = timed_steps(steps, lines, record.global_batch_size)
        if timed:
            break
    else:
        return record
    ours = replace(record.measurement, intervals=timed, clock="arrivals")
    ours_record = replace(record, measurement=ours)
    warm = steps[0].iteration - steps[0].iterations + warmup_of(ours_record)
    known = [at for at, step in enumerate(timed) if step.step_time_ms and step.iteration > warm]
    in_bursts = 2 * len({line.burst for line in lines}) <= len(steps)
    own = any(step.step_time_ms or step.samples_per_s for step in steps)
    if known:
        took_s = sum(timed[at].iterations * (timed[at].step_time_ms or 0.0) / 1000 for at in known)
        error_s = max(lines[at].error_s for at in (known[0] - 1, known[-1]))
        few = in_bursts and len(known) < FEWEST_BURSTS
        if not (own and (few or took_s < FEWEST_ERRORS * error_s)):
            left_out = (at for at in range(known[0], known[-1]) if timed[at].paused)
            error_s += sum(max(lines[at - 1].error_s, lines[at].error_s) for at in left_out)
            ours = replace(ours, clock_within_ms=round(error_s * 1000, 1))
            return replace(record, measurement=ours)
    if own or not in_bursts:
        return record
    return replace(record, measurement=replace(record.measurement, untimed=BUFFERED))


def lines_of(places: Sequence[Place], entries: Sequence[Arrival]) -> list[Line]:
    """Return when each step of a log came.

    A line came with its first byte: of one that a buffer tore, the rest comes much later. When one
    behind the last of the arrivals came is told with the next.
    """
    sizes = [entry.size for entry in entries]
    came = [*entries, Arrival(math.nan, 0, 0.0)]
    bursts = (bisect_right(sizes, place.begin) for place in places)
    return [
        Line(place.iteration, came[burst].at_s, burst, place.paused, came[burst].error_s)
        for place, burst in zip(places, bursts, strict=True)
    ]


def timed_steps(
    steps: Sequence[Interval], lines: Sequence[Line], global_batch_size: int | None
) -> tuple[Interval, ...]:
    """Return the steps with the time between their lines' arrivals; none where the lines are not
    theirs, or nobody knows the samples of a step that has a rate.

    Of lines that came together the last has the time of all, and covers their iterations; a line
    that holds an evaluation or a checkpoint has no time.
    """
    lines = lines[-len(steps) :]
    if [line.iteration for line in lines] != [step.iteration for step in steps]:
        return ()
    timed, before, paused = [], None, False
    for step, line, following in zip(steps, lines, [*lines[1:], None], strict=True):
        batch = step.global_batch_size or global_batch_size
        logged = samples_per_s(step, batch)
        if batch is None and logged and step.step_time_ms:
            batch = round(logged * step.step_time_ms / 1000)
        if batch is None and logged:
            return ()
        paused = paused or line.paused or step.paused_ms > 0
        untimed = replace(step, step_time_ms=None, samples_per_s=None, timed=0, remembers=0)
        untimed = replace(untimed, logged_samples_per_s=logged)
        if following and following.burst == line.burst:
            timed.append(replace(untimed, iterations=0) if before else untimed)
            continue
        covers = line.iteration - before.iteration if before else 0
        if before is None or covers <= 0:
            timed.append(untimed)
        else:
            ms = measured((line.at_s - before.at_s) * 1000 / covers)
            timed.append(
                replace(
                    untimed,
                    iterations=covers,
                    step_time_ms=None if paused else ms,
                    samples_per_s=None if paused or not ms or not batch else batch * 1000 / ms,
                    global_batch_size=batch,
                    paused=paused,
                    paused_ms=0.0,
                )
            )
        before, paused = line, False
    return tuple(timed)
