"""What a run's devices did while its counted steps ran: samples laid over the steps. Pure.

Energy is the difference of a device's total energy counter between the window's edges (zeus and
Megatron-LM's energy_monitor.py do the same). Where a counter was reset, or is not there, it is the
integral of the power samples, and said to be. Between an edge and the sample next to it inside of
the window the device took what it took on average within: beyond the edge it may be idle. Samples
with a gap at an edge, or for the integral anywhere, give none, with
the reason. So is one of which the edges are known too coarsely, or that lacks a device of the run.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runner.figures.power import GAP_S, POWER_CAP
from runner.results.sample_table import CPU, UNTOLD
from runner.results.window import Window
from runner.terms.record import Energy, Telemetry, Utilisation

if TYPE_CHECKING:
    from pandas import DataFrame, Series

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
MOST_POINTS = 300  # of a curve over the run: of more looks, each is the mean of neighbours
Floats = NDArray[np.float64]
_Rises = tuple[Floats, Floats]  # times in s, and joules at each since the first
_MOMENTS, _MEANS = (0.5, 0.5), (0.0, 1.0)  # what two samples weigh of the time between them
Curve = tuple[tuple[float, float], ...]


class OfNode(NamedTuple):
    """What the devices of one node did within its window; None: no sample says it.

    Joules, ± how many, for how many device seconds of how many iterations; why not, in `missing`.
    `busy` has a mean in percent for each device, `power` and `idle` the W of all samples, within
    and before the launcher started, and of how many; `events` all bits that were set.
    """

    joules: float = 0.0
    within: float = 0.0
    integrated: bool = False
    device_s: float = 0.0
    window_s: float = 0.0
    iterations: int = 0
    missing: str = ""
    busy: Sequence[float] = ()
    power: tuple[float, int] = (0.0, 0)
    idle: tuple[float, int] = (0.0, 0)
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    events: int | None = None
    gap_s: float | None = None
    no_gap: str = ""
    before_mib: float | None = None


def of_node(
    table: "DataFrame",
    window: Window | None,
    began: float | None = None,
    devices: Sequence[str] = (),
    name: str = "a node",
) -> OfNode:
    """Sum up a node's samples (none: it was not sampled), by its window, when its launcher started
    (node time), and the devices that the run had; no names: those that have samples.
    """
    early, late = window.sure if window else (math.inf, -math.inf)
    within = table[table["time"].between(early, late)]
    waiting = table[table["time"] < (-math.inf if began is None else began)]
    events = within["clock_events"][within["clock_events"] != UNTOLD].to_numpy()
    ordered = table.sort_values("time", kind="stable")
    by_device = ordered.groupby("device", observed=True, sort=False)
    sampled = {str(device): rows for device, rows in by_device}
    figures = OfNode(
        busy=[*within.groupby("device", observed=True)["utilisation_percent"].mean().dropna()],
        power=_sum(within["power_w"]),
        idle=_sum(waiting["power_w"]),
        temperature_c=_told(within["temperature_c"].max()),
        sm_clock_mhz=_told(within["sm_clock_mhz"].min()),
        events=int(np.bitwise_or.reduce(events)) if len(events) else None,
        no_gap="a node's devices were not sampled",
        before_mib=_told(waiting["memory_used_mib"].max()),
    )
    if not len(table):
        return figures._replace(missing=f"{name} was not sampled")
    if window is None:
        why = "when the counted steps ran is not known"
        return figures._replace(missing=why, no_gap=why)
    gaps = [_gap(sampled.get(device), window) for device in devices]
    figures = figures._replace(gap_s=max(gaps, default=0.0), no_gap="")
    length = window.end - window.begin
    if length < SHORTEST_S:
        return figures._replace(missing=f"the counted steps took less than {SHORTEST_S:g} s")
    if lost := [device for device in devices if device not in sampled]:
        return figures._replace(missing=f"device {lost[0]} of {name} has no samples")
    used = []
    for device, samples in sampled.items():
        if (of_one := _used(samples, window)) is None:
            return figures._replace(missing=f"device {device}: {_why_not(samples, window)}")
        used.append(of_one)
    joules, apart, integrated = zip(*used, strict=True)
    return figures._replace(
        joules=sum(joules),
        within=sum(apart),
        integrated=any(integrated),
        device_s=length * len(used),
        window_s=length,
        iterations=window.iterations,
    )


def energy_of(nodes: Sequence[OfNode]) -> Energy:
    """Add up what a run's nodes took; none where one of them is missing."""
    if missing := next((node.missing for node in nodes if node.missing), ""):
        return Energy(None, missing=missing)
    iterations = {node.iterations for node in nodes}
    if len(iterations) != 1:
        return Energy(None, missing="the nodes logged other steps")
    total = sum(node.joules for node in nodes)
    percent = sum(node.within for node in nodes) / total * 100 if total else 0.0
    if percent > MOST_PERCENT:
        seconds = nodes[-1].window_s
        longer = math.ceil(seconds * percent / MOST_PERCENT)
        return Energy(
            None,
            missing=f"samples and polls leave ±{percent:.1f} % open of what {seconds:.0f} s of"
            f" counted steps took; about {longer} s of them leave {MOST_PERCENT:g} %",
        )
    device_s = sum(node.device_s for node in nodes)
    return Energy(
        total,
        "integrated" if any(node.integrated for node in nodes) else "counter",
        iterations.pop(),
        within_percent=percent,
        mean_power_w=total / device_s,
    )


def telemetry_of(nodes: Sequence[OfNode], energy: Energy) -> Telemetry:
    """Say how warm the devices of a run's nodes were, why they were slower, how whole their samples
    are, and what was on them before it; where energy is known, power is by that.
    """
    masks = [node.events for node in nodes if node.events is not None]
    reasons = (name for bit, name in THROTTLES.items() if any(mask & bit for mask in masks))
    clocks = [node.sm_clock_mhz for node in nodes if node.sm_clock_mhz is not None]
    power_w = _mean(node.power for node in nodes)
    missing = next((node.no_gap for node in reversed(nodes) if node.no_gap), "")
    return Telemetry(
        mean_power_w=power_w if None in (power_w, energy.mean_power_w) else energy.mean_power_w,
        idle_power_w=_mean(node.idle for node in nodes),
        temperature_c=_highest(node.temperature_c for node in nodes),
        sm_clock_mhz=min(clocks, default=None),
        throttled=tuple(reasons) if masks else None,
        gap_s=None if missing else _highest(node.gap_s for node in nodes),
        missing=missing,
        before_mib=_highest(node.before_mib for node in nodes),
    )


def utilisation_of(nodes: Sequence[OfNode]) -> Utilisation | None:
    """Average the means of all devices of a run's nodes."""
    busy = [percent for node in nodes for percent in node.busy]
    return Utilisation(fmean(busy), "samples") if busy else None


def peak_memory(table: "DataFrame") -> float | None:
    """Return the memory used on the fullest device of a node, over the whole run, in MiB."""
    return _told(table["memory_used_mib"][table["device"] != CPU].max()) or None


def over_time(table: "DataFrame") -> tuple[Curve, Curve, Curve]:
    """Return (seconds since the node's first sample, value) of utilisation, power and memory.

    Utilisation in percent and power in W are the mean of the node's devices, memory in MiB is in
    use on the fullest; empty: no sample has it. Processors are not a device: their memory is not
    the run's. Each look at all devices is one point, though each has a time of its own in it.
    """
    if not len(table):
        return (), (), ()
    names = [*map(str, table["device"].cat.categories)]
    order = sorted(names, key=lambda name: (len(name), name))
    places = np.array([order.index(name) for name in names])[table["device"].cat.codes]
    looks = np.flatnonzero([True, *(places[1:] <= places[:-1])])
    time, used = table["time"].to_numpy(), table["memory_used_mib"].to_numpy()
    used = np.where((table["device"] != CPU) & (used > 0), used, np.nan)
    at = time[looks] - time.min()
    return (
        _curve(at, _means(table["utilisation_percent"].to_numpy(), looks)),
        _curve(at, _means(table["power_w"].to_numpy(), looks)),
        _curve(at, np.fmax.reduceat(used, looks)),
    )


def _means(values: Floats, looks: NDArray[np.intp]) -> Floats:
    """Return the mean of each look; NaN where no device says it."""
    absent = np.isnan(values)
    counts = np.add.reduceat(~absent, looks, dtype=np.intp)
    sums = np.add.reduceat(np.where(absent, 0.0, values), looks)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _curve(at: Floats, values: Floats) -> Curve:
    there = ~np.isnan(values)
    points = np.column_stack([at[there], values[there]])
    points = points[np.argsort(points[:, 0], kind="stable")]
    if len(points) > MOST_POINTS:
        cuts = len(points) * np.arange(MOST_POINTS) // MOST_POINTS
        points = np.add.reduceat(points, cuts) / np.diff([*cuts, len(points)])[:, None]
    return tuple((seconds, value) for seconds, value in points.tolist())


def _told(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _sum(values: "Series[float]") -> tuple[float, int]:
    there = values.dropna()
    return math.fsum(there), len(there)


def _mean(sums: Iterable[tuple[float, int]]) -> float | None:
    totals, counts = zip(*sums, strict=True)
    return math.fsum(totals) / sum(counts) if sum(counts) else None


def _gap(samples: "DataFrame | None", window: Window) -> float:
    """Return the longest time within the window without a sample."""
    times = np.empty(0) if samples is None else samples["time"].to_numpy()
    within = times[(window.begin <= times) & (times <= window.end)]
    return float(np.diff([window.begin, *within, window.end]).max())


def _used(samples: "DataFrame", window: Window) -> tuple[float, float, bool] | None:
    """Return what a device used in the window, ± how much by where that may lie, and whether it is
    integrated; None where samples lack.

    A power sample is of a moment, or the mean of the second before it (NVML on Ampere and later):
    what the two make of the window apart is as open as where it lies.
    """
    times, off = samples["time"].to_numpy(), window.begin_within
    is_near = (abs(times - window.begin) < off) | (abs(times - window.end) < off)
    windows = window.possible(times[is_near].tolist())
    at, joules = _there(samples, "energy_j")
    is_near = (window.begin - GAP_S <= at) & (at <= window.end + GAP_S)
    was_reset = (np.diff(joules[is_near]) < 0).any()
    if not was_reset and (counted := _between((at, joules), window, windows)):
        return *counted, False
    at, watts = _there(samples, "power_w")
    gaps = np.diff(at) > GAP_S
    if (gaps & (at[:-1] < window.end) & (at[1:] > window.begin)).any():
        return None
    moments, means = (
        _between(_summed(at, watts, by), window, windows) for by in (_MOMENTS, _MEANS)
    )
    if moments and means:
        return moments[0], max(abs(moments[0] - means[0]), moments[1]), True
    return None


def _there(samples: "DataFrame", name: str) -> tuple[Floats, Floats]:
    values = samples[name].to_numpy()
    there = ~np.isnan(values)
    return samples["time"].to_numpy()[there], values[there]


def _summed(at: Floats, watts: Floats, weights: tuple[float, float]) -> _Rises:
    """Return (times, joules): between two samples the device took as much of each as it weighs."""
    earlier, later = weights
    areas = np.diff(at) * (earlier * watts[:-1] + later * watts[1:])
    return at, np.concatenate([[0.0], np.cumsum(areas)])


def _between(
    curve: _Rises, window: Window, windows: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Return the rise of a curve over the window, and ± how much by where that may lie."""
    rise = _rise(curve, window.begin, window.end)
    rises = [_rise(curve, *edges) for edges in windows]
    if rise is None or None in rises:
        return None
    return rise, max(abs(bound - rise) for bound in rises if bound is not None)


def _rise(curve: _Rises, begin: float, end: float) -> float | None:
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


def _why_not(samples: "DataFrame", window: Window) -> str:
    if samples[["energy_j", "power_w"]].isna().all(axis=None):
        return "neither its energy counter nor its power can be read"
    early, late = window.begin - window.begin_within, window.end + window.end_within
    if early < samples["time"].iloc[0] or late > samples["time"].iloc[-1]:
        return "its samples do not span the counted steps"
    return f"its samples have a gap of more than {GAP_S:g} s"
