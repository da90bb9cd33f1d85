"""How busy the devices were while the counted steps ran: samples laid over the steps. Pure.

Samples have the node's time, and so has every poll of the log (timeline.jsonl: node time, bytes of
the log so far). A step was logged between the poll that did not have its line and the one that had
it, so the time of a step is known to one poll (about a second). The steady window of a run begins
with the line before the first counted one and ends with the last counted one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from runner.logs.kinds import KINDS, kinds_of
from runner.terms.record import Utilisation


@dataclass(frozen=True)
class Sample:
    """One look at one device: node time in s, percent busy, MiB in use (None: not told)."""

    time: float
    device: str
    utilisation_percent: float | None
    memory_used_mib: float | None


def times_of_steps(
    system: str, log: bytes, polls: Iterable[tuple[float, int]]
) -> list[tuple[int, float]]:
    """Return (iteration, node time in s when its line was there), by (node time, bytes of log) of
    polls.

    Empty where the log has no steps of the system.
    """
    polls = sorted(polls)
    for kind in kinds_of(system):
        parser, times, at, seen = KINDS[kind](), [], 0, 0
        for time, size in polls:
            # Whole lines only: the rest belongs to the next poll.
            end, seen = log.rfind(b"\n", seen, size) + 1, max(seen, size)
            if end <= at:
                continue
            batch = parser.feed(log[at:end])
            at = end
            if batch is not None:
                times += [(iteration, time) for iteration in batch.iteration.tolist()]
        if times:
            return times
    return []


def steady_window(
    steps: Sequence[tuple[int, float]], counted: tuple[int, int]
) -> tuple[float, float] | None:
    """Begin and end (node time) of the counted iterations (first, last); None if not logged."""
    first, last = counted
    before = [time for iteration, time in steps if iteration < first]
    within = [time for iteration, time in steps if first <= iteration <= last]
    if not within:
        return None
    begin = max(before, default=min(within))
    return (begin, max(within)) if max(within) > begin else None


def utilisation(
    nodes: Iterable[tuple[Sequence[Sample], tuple[float, float] | None]],
) -> Utilisation | None:
    """Average over all devices of all nodes each device's mean within its node's window."""
    means = []
    for samples, window in nodes:
        if window is None:
            continue
        by_device: dict[str, list[float]] = {}
        for sample in samples:
            if window[0] <= sample.time <= window[1] and sample.utilisation_percent is not None:
                by_device.setdefault(sample.device, []).append(sample.utilisation_percent)
        means += [fmean(values) for values in by_device.values()]
    return Utilisation(fmean(means), "samples") if means else None


def peak_memory(samples: Mapping[str, Sequence[Sample]]) -> float | None:
    """Return the memory used on the fullest device of all hosts, over the whole run, in MiB."""
    return max(
        (s.memory_used_mib for each in samples.values() for s in each if s.memory_used_mib),
        default=None,
    )
