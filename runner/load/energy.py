"""What the counted steps took from the socket, and how warm it was: samples laid over them. Pure.

Energy is the difference of a device's total energy counter between the window's edges (zeus and
Megatron-LM's energy_monitor.py do the same). Where a counter was reset, or is not there, it is the
integral of the power samples, and said to be. Between an edge and the sample next to it inside of
the window the device took what it took on average within: beyond the edge it may be idle. Samples
with a gap at an edge, or for the integral anywhere, give none, with
the reason. So is one of which the edges are known too coarsely, or that lacks a device of the run.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from runner.figures.power import GAP_S, POWER_CAP
from runner.load.sample_table import UNTOLD, Floats, SampleTable, finite_values
from runner.load.utilisation import NodeSamples
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
Curve = tuple[Floats, Floats]  # times in s, and a value at each
_MOMENTS, _MEANS = (0.5, 0.5), (0.0, 1.0)  # what two samples weigh of the time between them
Method = Literal["counter", "integrated"]
_NO_CURVE: Curve = (np.empty(0), np.empty(0))


class NodeEnergy(NamedTuple):
    """What a node's devices took: joules, ± how many, and for how many device seconds."""

    joules: float = 0.0
    within: float = 0.0
    device_s: float = 0.0
    window_s: float = 0.0
    iterations: int = 0
    integrated: bool = False
    missing: str = ""


def together(nodes: Sequence[NodeEnergy]) -> Energy:
    """Add up the parts of a run's nodes; none where one of them is missing."""
    if missing := next((node.missing for node in nodes if node.missing), ""):
        return Energy(None, missing=missing)
    iterations = {node.iterations for node in nodes}
    if len(iterations) != 1:
        return Energy(None, missing="the nodes logged other steps")
    total = sum(node.joules for node in nodes)
    percent = sum(node.within for node in nodes) / total * 100 if total else 0.0
    if percent > MOST_PERCENT:
        return Energy(None, missing=_too_coarse(percent, nodes[-1].window_s))
    method: Method = "integrated" if any(node.integrated for node in nodes) else "counter"
    device_s = sum(node.device_s for node in nodes)
    return Energy(total, method, iterations.pop(), "", percent, total / device_s)


def of_node(node: NodeSamples) -> NodeEnergy:
    """Add up a node's devices over its window."""
    table, window, name = node.samples, node.window, node.name
    if not len(table):
        return NodeEnergy(missing=f"{name} was not sampled")
    if window is None:
        return NodeEnergy(missing="when the counted steps ran is not known")
    length = window.end - window.begin
    if length < SHORTEST_S:
        return NodeEnergy(missing=f"the counted steps took less than {SHORTEST_S:g} s")
    sampled = table.by_device()
    if lost := [device for device in node.devices if device not in sampled]:
        return NodeEnergy(missing=f"device {lost[0]} of {name} has no samples")
    used_by_device = {device: _used(of_device, window) for device, of_device in sampled.items()}
    used = [device_use for device_use in used_by_device.values() if device_use is not None]
    if len(used) < len(used_by_device):
        device = next(device for device, device_use in used_by_device.items() if device_use is None)
        return NodeEnergy(missing=f"device {device}: {_why_not(sampled[device], window)}")
    return NodeEnergy(
        sum(device_use.joules for device_use in used),
        sum(device_use.within for device_use in used),
        length * len(used),
        length,
        window.iterations,
        any(device_use.method == "integrated" for device_use in used),
    )


class NodeThermals(NamedTuple):
    """A node's part: the sum of W and of how many samples, within its window and before."""

    power: tuple[float, int]
    idle: tuple[float, int]
    temperature_c: float | None
    sm_clock_mhz: float | None
    events: int | None  # all bits that were set; None: no sample says it


def thermals_of_node(node: NodeSamples) -> NodeThermals:
    """Look at a node's samples within its window, and before it began."""
    table, within = node.samples, node.within
    waiting = table.where(table.time < (-math.inf if node.began is None else node.began))
    heat, clocks = finite_values(within.temperature_c), finite_values(within.sm_clock_mhz)
    events = within.clock_events[within.clock_events != UNTOLD]
    return NodeThermals(
        _sum(within.power_w),
        _sum(waiting.power_w),
        float(heat.max()) if len(heat) else None,
        float(clocks.min()) if len(clocks) else None,
        int(np.bitwise_or.reduce(events)) if len(events) else None,
    )


def heat_of(nodes: Sequence[NodeThermals]) -> Thermals:
    """Put the parts of a run's nodes together."""
    masks = [node.events for node in nodes if node.events is not None]
    reasons = (name for bit, name in THROTTLES.items() if any(mask & bit for mask in masks))
    heat = [node.temperature_c for node in nodes if node.temperature_c is not None]
    clocks = [node.sm_clock_mhz for node in nodes if node.sm_clock_mhz is not None]
    return Thermals(
        mean_power_w=_mean(node.power for node in nodes),
        idle_power_w=_mean(node.idle for node in nodes),
        temperature_c=max(heat, default=None),
        sm_clock_mhz=min(clocks, default=None),
        throttled=tuple(reasons) if masks else None,
    )


def _sum(values: Floats) -> tuple[float, int]:
    there = finite_values(values)
    return math.fsum(there), len(there)


def _mean(sums: Iterable[tuple[float, int]]) -> float | None:
    totals = list(sums)
    count = sum(number for _, number in totals)
    return math.fsum(total for total, _ in totals) / count if count else None


class _Used(NamedTuple):
    joules: float
    within: float  # ± by where the window may lie
    method: Method


def _used(samples: SampleTable, window: Window) -> _Used | None:
    """Return what a device used in the window; None where samples lack.

    A power sample is of a moment, or the mean of the second before it (NVML on Ampere and later):
    what the two make of the window apart is as open as where it lies.
    """
    times, off = samples.time, window.begin_within
    is_near = (abs(times - window.begin) < off) | (abs(times - window.end) < off)
    windows = window.possible(times[is_near].tolist())
    if counted := _between(_of_counter(samples, window), window, windows):
        return _Used(*counted, "counter")
    power = _of_power(samples, window)
    moments, means = (_between(_summed(power, by), window, windows) for by in (_MOMENTS, _MEANS))
    if moments and means:
        apart = max(abs(moments[0] - means[0]), moments[1])
        return _Used(moments[0], apart, "integrated")
    return None


def _curve(samples: SampleTable, values: Floats) -> Curve:
    there = ~np.isnan(values)
    return samples.time[there], values[there]


def _of_counter(samples: SampleTable, window: Window) -> Curve:
    """Return (times, joules) by the counter; none where it was reset about the window."""
    times, joules = _curve(samples, samples.energy_j)
    is_near = (window.begin - GAP_S <= times) & (times <= window.end + GAP_S)
    return _NO_CURVE if (np.diff(joules[is_near]) < 0).any() else (times, joules)


def _of_power(samples: SampleTable, window: Window) -> Curve:
    """Return (times, watts); none with a gap in the window."""
    times, watts = _curve(samples, samples.power_w)
    gaps = np.diff(times) > GAP_S
    across = gaps & (times[:-1] < window.end) & (times[1:] > window.begin)
    return _NO_CURVE if across.any() else (times, watts)


def _summed(curve: Curve, weights: tuple[float, float]) -> Curve:
    """Return (times, joules): between two samples the device took as much of each as it weighs."""
    times, watts = curve
    if not len(times):
        return _NO_CURVE
    earlier, later = weights
    areas = np.diff(times) * (earlier * watts[:-1] + later * watts[1:])
    return times, np.concatenate([[0.0], np.cumsum(areas)])


def _between(
    curve: Curve, window: Window, windows: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Return the rise of a curve over the window, and ± how much by where that may lie."""
    rise = _rise(curve, window.begin, window.end)
    rises = [_rise(curve, *edges) for edges in windows]
    if rise is None or None in rises:
        return None
    return rise, max(abs(bound - rise) for bound in rises if bound is not None)


def _rise(curve: Curve, begin: float, end: float) -> float | None:
    """Return how much a curve rises between two times, beyond the points between them as fast as
    between these, but no further than it had risen by the next point; None across a gap.
    """
    times, values = curve
    first_row = int(np.searchsorted(times, begin, "left"))
    last_row = int(np.searchsorted(times, end, "right")) - 1
    if last_row <= first_row:
        return None
    rise = float(values[last_row] - values[first_row])
    slope = rise / float(times[last_row] - times[first_row])
    for inner, outer, edge in ((first_row, first_row - 1, begin), (last_row, last_row + 1, end)):
        apart = abs(float(times[inner]) - edge)
        if not apart:
            continue
        if not 0 <= outer < len(times) or abs(times[outer] - times[inner]) > GAP_S:
            return None
        rise += min(slope * apart, abs(float(values[outer] - values[inner])))
    return rise


def _why_not(samples: SampleTable, window: Window) -> str:
    if not len(finite_values(samples.energy_j)) and not len(finite_values(samples.power_w)):
        return "neither its energy counter nor its power can be read"
    early = window.begin - window.begin_within
    if early < samples.time[0] or window.end + window.end_within > samples.time[-1]:
        return "its samples do not span the counted steps"
    return f"its samples have a gap of more than {GAP_S:g} s"


def _too_coarse(percent: float, seconds: float) -> str:
    """Say what is open, and how long the counted steps would have to take."""
    return (
        f"samples and polls leave ±{percent:.1f} % open of what {seconds:.0f} s of counted steps"
        f" took; about {math.ceil(seconds * percent / MOST_PERCENT)} s of them leave"
        f" {MOST_PERCENT:g} %"
    )
