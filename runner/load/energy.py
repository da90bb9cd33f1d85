"""What the counted steps took from the socket, and how warm it was: samples laid over them. Pure.

Energy is the difference of a device's total energy counter between the window's edges (zeus and
Megatron-LM's energy_monitor.py do the same). Where a counter was reset, or is not there, it is the
integral of the power samples, and said to be. Between an edge and the sample next to it inside of
the window the device took what it took on average within: beyond the edge it may be idle. Samples
with a gap at an edge, or for the integral anywhere, give none: a missing measurement is none, with
the reason. So is one of which the edges are known too coarsely, or that lacks a device of the run.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Literal, NamedTuple

from runner.figures.power import GAP_S, POWER_CAP
from runner.load.utilisation import NodeSamples, Sample
from runner.load.window import Window
from runner.terms.record import Energy, Thermals

# Bits of NVML's clocks event reasons (nvml.h) that mean a device ran slower than it could.
THROTTLES: Mapping[int, str] = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
SHORTEST_S = 5.0  # of the counted steps: a counter is renewed up to 0.1 s late, at either edge
MOST_PERCENT = 3.0  # ± of a figure by when the steps began and ended; beyond it there is none
Point = tuple[float, float]
_MOMENTS, _MEANS = (0.5, 0.5), (0.0, 1.0)  # what two samples weigh of the time between them
Method = Literal["counter", "integrated"]


def energy(nodes: Iterable[NodeSamples]) -> Energy:
    """Add up all devices of all nodes, each over its node's window."""
    total, off, device_s = 0.0, 0.0, 0.0
    methods, iterations = set(), set()
    for samples, window, _, had, name in nodes:
        if not samples:
            return Energy(None, missing=f"{name} was not sampled")
        if window is None:
            return Energy(None, missing="when the counted steps ran is not known")
        length = window.end - window.begin
        if length < SHORTEST_S:
            return Energy(None, missing=f"the counted steps took less than {SHORTEST_S:g} s")
        sampled = by_device(samples)
        if lost := [device for device in had if device not in sampled]:
            return Energy(None, missing=f"device {lost[0]} of {name} has no samples")
        iterations.add(window.iterations)
        for device, of_device in sampled.items():
            used = _used(of_device, window)
            if used is None:
                return Energy(None, missing=f"device {device}: {_why_not(of_device, window)}")
            methods.add(used.method)
            total, off, device_s = total + used.joules, off + used.within, device_s + length
    if len(iterations) != 1:
        return Energy(None, missing="the nodes logged other steps")
    percent = off / total * 100 if total else 0.0
    if percent > MOST_PERCENT:
        return Energy(None, missing=_too_coarse(percent, length))
    method: Method = "integrated" if "integrated" in methods else "counter"
    return Energy(total, method, iterations.pop(), "", percent, total / device_s)


def thermals(nodes: Iterable[NodeSamples]) -> Thermals:
    """Look at the samples of all devices within their windows, and before their nodes began."""
    nodes = list(nodes)
    within = [
        sample
        for node in nodes
        if node.window is not None
        for sample in node.samples
        if node.window.surely(sample.time)
    ]
    waiting = [
        sample
        for node in nodes
        if node.began is not None
        for sample in node.samples
        if sample.time < node.began
    ]
    heat = [s.temperature_c for s in within if s.temperature_c is not None]
    clocks = [s.sm_clock_mhz for s in within if s.sm_clock_mhz is not None]
    masks = [s.clock_events for s in within if s.clock_events is not None]
    reasons = (name for bit, name in THROTTLES.items() if any(mask & bit for mask in masks))
    return Thermals(
        mean_power_w=_mean_power(within),
        idle_power_w=_mean_power(waiting),
        temperature_c=max(heat, default=None),
        sm_clock_mhz=min(clocks, default=None),
        throttled=tuple(reasons) if masks else None,
    )


def _mean_power(samples: Iterable[Sample]) -> float | None:
    power = [sample.power_w for sample in samples if sample.power_w is not None]
    return fmean(power) if power else None


def by_device(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    """Sort samples by device, and each device's by time."""
    devices: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.time):
        devices.setdefault(sample.device, []).append(sample)
    return devices


class _Used(NamedTuple):
    joules: float
    within: float  # ± by where the window may lie
    method: Method


def _used(samples: Sequence[Sample], window: Window) -> _Used | None:
    """Return what a device used in the window; None where samples lack.

    A power sample is of a moment, or the mean of the second before it (NVML on Ampere and later):
    what the two make of the window apart is as open as where it lies.
    """
    windows = window.possible(sample.time for sample in samples)
    if counted := _between(_of_counter(samples, window), window, windows):
        return _Used(*counted, "counter")
    power = _of_power(samples, window)
    moments, means = (_between(_summed(power, by), window, windows) for by in (_MOMENTS, _MEANS))
    if moments and means:
        apart = max(abs(moments[0] - means[0]), moments[1])
        return _Used(moments[0], apart, "integrated")
    return None


def _of_counter(samples: Sequence[Sample], window: Window) -> Sequence[Point]:
    """Return (time, joules) by the counter; none where it was reset about the window."""
    points = [(s.time, s.energy_j) for s in samples if s.energy_j is not None]
    near = [p for p in points if window.begin - GAP_S <= p[0] <= window.end + GAP_S]
    return [] if any(after[1] < before[1] for before, after in pairwise(near)) else points


def _of_power(samples: Sequence[Sample], window: Window) -> Sequence[Point]:
    """Return (time, watts); none with a gap in the window."""
    points = [(s.time, s.power_w) for s in samples if s.power_w is not None]
    gaps = ((a[0], b[0]) for a, b in pairwise(points) if b[0] - a[0] > GAP_S)
    across = any(before < window.end and after > window.begin for before, after in gaps)
    return [] if across else points


def _summed(watts: Sequence[Point], weights: tuple[float, float]) -> Sequence[Point]:
    """Return (time, joules): between two samples the device took as much of each as it weighs."""
    earlier, later = weights
    areas = ((b[0] - a[0]) * (earlier * a[1] + later * b[1]) for a, b in pairwise(watts))
    return list(zip((time for time, _ in watts), accumulate(areas, initial=0.0), strict=False))


def _between(
    points: Sequence[Point], window: Window, windows: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Return the rise of a curve over the window, and ± how much by where that may lie."""
    rise = _rise(points, window.begin, window.end)
    rises = [_rise(points, *edges) for edges in windows]
    if rise is None or None in rises:
        return None
    return rise, max(abs(each - rise) for each in rises if each is not None)


def _rise(points: Sequence[Point], begin: float, end: float) -> float | None:
    """Return how much a curve rises between two times, beyond the points between them as fast as
    between these, but no further than it had risen by the next point; None across a gap.
    """
    first = bisect_left(points, begin, key=lambda point: point[0])
    last = bisect_right(points, end, key=lambda point: point[0]) - 1
    if last <= first:
        return None
    (t1, low), (t2, high) = points[first], points[last]
    slope = (high - low) / (t2 - t1)
    rise = high - low
    for inner, outer, edge in ((first, first - 1, begin), (last, last + 1, end)):
        (time, value), apart = points[inner], abs(points[inner][0] - edge)
        if not apart:
            continue
        if not 0 <= outer < len(points) or abs(points[outer][0] - time) > GAP_S:
            return None
        rise += min(slope * apart, abs(points[outer][1] - value))
    return rise


def _why_not(samples: Sequence[Sample], window: Window) -> str:
    if all(s.energy_j is None and s.power_w is None for s in samples):
        return "neither its energy counter nor its power can be read"
    early = window.begin - window.begin_within
    if early < samples[0].time or window.end + window.end_within > samples[-1].time:
        return "its samples do not span the counted steps"
    return f"its samples have a gap of more than {GAP_S:g} s"


def _too_coarse(percent: float, seconds: float) -> str:
    """Say what is open, and how long the counted steps would have to take."""
    return (
        f"samples and polls leave ±{percent:.1f} % open of what {seconds:.0f} s of counted steps"
        f" took; about {math.ceil(seconds * percent / MOST_PERCENT)} s of them leave"
        f" {MOST_PERCENT:g} %"
    )
