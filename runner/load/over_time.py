"""A node's samples as curves over its run: utilisation, power and memory. Pure."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runner.load.sample_table import CPU, Floats, SampleTable

Curve = tuple[tuple[float, float], ...]
MOST_POINTS = 300  # of a curve: of more looks, each is the mean of neighbours


class NodeCurves(NamedTuple):
    """(seconds since the node's first sample, value) of each quantity; empty: no sample has it.

    Utilisation in percent and power in W are the mean of the node's devices, memory in MiB is in
    use on the fullest. Processors are not a device: their memory is not the run's.
    """

    busy: Curve = ()
    power_w: Curve = ()
    memory_mib: Curve = ()


def over_time(table: SampleTable) -> NodeCurves:
    """Sum up the samples of a node's devices, look by look."""
    if not len(table):
        return NodeCurves()
    looks = _looks(table)
    at = table.time[looks] - table.time.min()
    on_devices = np.array([name != CPU for name in table.names])[table.device]
    used = np.where(on_devices & (table.memory_used_mib > 0), table.memory_used_mib, np.nan)
    return NodeCurves(
        _curve(at, _mean(table.utilisation_percent, looks)),
        _curve(at, _mean(table.power_w, looks)),
        _curve(at, np.fmax.reduceat(used, looks)),
    )


def _mean(values: Floats, looks: NDArray[np.intp]) -> Floats:
    """Return the mean of each look; NaN where no device says it."""
    absent = np.isnan(values)
    counts = np.add.reduceat(~absent, looks, dtype=np.intp)
    sums = np.add.reduceat(np.where(absent, 0.0, values), looks)
    means = np.full(len(looks), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _curve(at: Floats, values: Floats) -> Curve:
    there = ~np.isnan(values)
    order = np.argsort(at[there], kind="stable")
    at, values = at[there][order], values[there][order]
    if len(at) > MOST_POINTS:
        cuts = len(at) * np.arange(MOST_POINTS) // MOST_POINTS
        sizes = np.diff([*cuts, len(at)])
        at, values = (np.add.reduceat(axis, cuts) / sizes for axis in (at, values))
    return tuple(zip(at.tolist(), values.tolist(), strict=True))


def _looks(table: SampleTable) -> NDArray[np.intp]:
    """Return where each look at all devices begins; each device has a time of its own in it."""
    devices, rows = len(table.names), len(table)
    if rows % devices == 0:  # the usual: each look has all of them, in one order
        by_look = table.device.reshape(-1, devices)
        if len(set(by_look[0].tolist())) == devices and (by_look == by_look[0]).all():
            return np.arange(0, rows, devices, dtype=np.intp)
    begins: list[int] = []
    devices_seen: set[int] = set()
    for row, device in enumerate(table.device.tolist()):
        if device in devices_seen or not begins:
            begins.append(row)
            devices_seen = set()
        devices_seen.add(device)
    return np.array(begins, dtype=np.intp)
