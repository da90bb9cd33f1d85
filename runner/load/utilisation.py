"""How busy the devices were while the counted steps ran: samples laid over the steps. Pure.

Samples have the node's time, and so has every poll of the log (timeline.jsonl: node time, bytes of
the log so far). A step was logged between the poll that did not have its line and the one that had
it, so the time of a step is known to one poll (about a second). The steady window of a run begins
with the line before the first counted one and ends with the last counted one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from runner.logs.kind import Readers
from runner.terms.record import FirstStep, Utilisation


@dataclass(frozen=True)
class Sample:
    """One look at one device at a node's time in s; None: not told.

    `energy_j` counts from some time before the run; `clock_events` are NVML's bits.
    """

    time: float
    device: str
    utilisation_percent: float | None
    memory_used_mib: float | None
    power_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    clock_events: int | None = None


def times_of_steps(
    readers: Readers, log: bytes, polls: Iterable[tuple[float, int]]
) -> list[tuple[int, float]]:
    """Return (iteration, node time in s when its line was there), by (node time, bytes of log) of
    polls.

    Empty where the log has no steps that `readers` know.
    """
    polls = sorted(polls)
    for make in readers.values():
        parser, times, at, seen = make(), [], 0, 0
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


def first_step(steps: Sequence[tuple[int, float]], began: float | None) -> FirstStep | None:
    """Return the first logged step of a node whose launcher began then; None where either is not
    known.
    """
    if began is None or not steps:
        return None
    iteration, time = min(steps, key=lambda step: step[1])
    return FirstStep(time - began, iteration) if time > began else None


class Window(NamedTuple):
    """When steps ran, by their node's clock in s: from the line before them to their last one."""

    begin: float
    end: float
    iterations: int


def steady_window(steps: Sequence[tuple[int, float]], counted: tuple[int, int]) -> Window | None:
    """Return when the counted iterations (first, last) ran; None where that was not logged.

    Without a line before them it begins with their first one, whose own iterations are then left
    out.
    """
    first, last = counted
    before = [step for step in steps if step[0] < first]
    within = [step for step in steps if first <= step[0] <= last]
    if not within:
        return None
    begins = max(before or [min(within)], key=lambda step: step[1])
    ends = max(within, key=lambda step: step[1])
    if ends[1] <= begins[1]:
        return None
    return Window(begins[1], ends[1], ends[0] - begins[0])


def utilisation(
    nodes: Iterable[tuple[Sequence[Sample], Window | None]],
) -> Utilisation | None:
    """Average over all devices of all nodes each device's mean within its node's window."""
    means = []
    for samples, window in nodes:
        if window is None:
            continue
        by_device: dict[str, list[float]] = {}
        for sample in samples:
            if window.begin <= sample.time <= window.end and sample.utilisation_percent is not None:
                by_device.setdefault(sample.device, []).append(sample.utilisation_percent)
        means += [fmean(values) for values in by_device.values()]
    return Utilisation(fmean(means), "samples") if means else None


def peak_memory(samples: Mapping[str, Sequence[Sample]]) -> float | None:
    """Return the memory used on the fullest device of all hosts, over the whole run, in MiB."""
    return max(
        (s.memory_used_mib for each in samples.values() for s in each if s.memory_used_mib),
        default=None,
    )
