"""What the counted steps took from the socket, and how warm it was: samples laid over them. Pure.

Energy is the difference of a device's total energy counter between the window's edges (zeus and
Megatron-LM's energy_monitor.py do the same). Where a counter was reset, or is not there, it is the
integral of the power samples, and said to be. Samples with a gap at an edge, or for the integral
anywhere, give none: a missing measurement is none, with the reason.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from runner.figures.power import GAP_S, POWER_CAP
from runner.load.utilisation import Sample, Window
from runner.terms.record import Energy, Thermals

# Bits of NVML's clocks event reasons (nvml.h) that mean a device ran slower than it could.
THROTTLES: Mapping[int, str] = {
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
SHORTEST_S = 5.0  # of the counted steps: when a line came is known to about a second
Point = tuple[float, float]


def energy(nodes: Iterable[tuple[Sequence[Sample], Window | None]]) -> Energy:
    """Add up all devices of all nodes, each over its node's window."""
    total, methods, iterations = 0.0, set(), set()
    for samples, window in nodes:
        if window is None:
            return Energy(None, missing="when the counted steps ran is not known")
        if window.end - window.begin < SHORTEST_S:
            return Energy(None, missing=f"the counted steps took less than {SHORTEST_S:g} s")
        devices = by_device(samples)
        if not devices:
            return Energy(None, missing="a node's devices were not sampled")
        iterations.add(window.iterations)
        for device, of_device in devices.items():
            used = _of_counter(of_device, window)
            methods.add("integrated" if used is None else "counter")
            used = _of_power(of_device, window) if used is None else used
            if used is None:
                return Energy(None, missing=f"device {device}: {_why_not(of_device, window)}")
            total += used
    if len(iterations) != 1:
        return Energy(None, missing="the nodes logged other steps")
    return Energy(total, "integrated" if "integrated" in methods else "counter", iterations.pop())


def thermals(
    nodes: Iterable[tuple[Sequence[Sample], Window | None, float | None]],
) -> Thermals:
    """Look at the samples of all devices within their windows, and before their nodes began.

    A node is its samples, its window, and when its launcher started (node time; None: not known).
    """
    nodes = list(nodes)
    within = [
        sample
        for samples, window, _ in nodes
        if window is not None
        for sample in samples
        if window.begin <= sample.time <= window.end
    ]
    waiting = [
        sample
        for samples, _, began in nodes
        if began is not None
        for sample in samples
        if sample.time < began
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


def _of_counter(samples: Sequence[Sample], window: Window) -> float | None:
    """Return joules by the counter; None where it was reset, or not read about an edge."""
    points = [(s.time, s.energy_j) for s in samples if s.energy_j is not None]
    near = [p for p in points if window.begin - GAP_S <= p[0] <= window.end + GAP_S]
    if any(after[1] < before[1] for before, after in pairwise(near)):
        return None
    first, last = _at(points, window.begin), _at(points, window.end)
    return None if first is None or last is None else last - first


def _of_power(samples: Sequence[Sample], window: Window) -> float | None:
    """Return joules by the trapezoids under the power samples; None with a gap."""
    points = [(s.time, s.power_w) for s in samples if s.power_w is not None]
    edges = [(edge, _at(points, edge)) for edge in (window.begin, window.end)]
    inner = [point for point in points if window.begin < point[0] < window.end]
    curve: list[Point] = []
    for time, watts in (edges[0], *inner, edges[1]):
        if watts is None:
            return None
        curve.append((time, watts))
    if any(after[0] - before[0] > GAP_S for before, after in pairwise(curve)):
        return None
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(curve))


def _at(points: Sequence[Point], time: float) -> float | None:
    """Return the value at a time, on the line between its neighbours; None across a gap."""
    index = bisect_right(points, time, key=lambda point: point[0])
    if index and points[index - 1][0] == time:
        return points[index - 1][1]
    if not 0 < index < len(points):
        return None
    (earlier, before), (later, after) = points[index - 1], points[index]
    if later - earlier > GAP_S:
        return None
    return before + (after - before) * (time - earlier) / (later - earlier)


def _why_not(samples: Sequence[Sample], window: Window) -> str:
    if all(s.energy_j is None and s.power_w is None for s in samples):
        return "neither its energy counter nor its power can be read"
    if window.begin < samples[0].time or window.end > samples[-1].time:
        return "its samples do not span the counted steps"
    return f"its samples have a gap of more than {GAP_S:g} s"
