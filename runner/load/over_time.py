"""A node's samples as curves over its run: utilisation, power and memory. Pure."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from runner.load.utilisation import Sample

CPU = "cpu"  # the one device of a node without devices: all its processors
Curve = tuple[tuple[float, float], ...]


class NodeCurves(NamedTuple):
    """(seconds since the node's first sample, value) of each quantity; empty: no sample has it.

    Utilisation in percent and power in W are the mean of the node's devices, memory in MiB is in
    use on the fullest. Processors are no device: their memory is not the run's.
    """

    busy: Curve = ()
    power_w: Curve = ()
    memory_mib: Curve = ()


def over_time(samples: Sequence[Sample]) -> NodeCurves:
    """Sum up the samples of a node's devices, look by look."""
    begin = min((sample.time for sample in samples), default=0.0)
    busy, power, memory = [], [], []
    for look in _looks(samples):
        at = look[0].time - begin
        if used := [s.utilisation_percent for s in look if s.utilisation_percent is not None]:
            busy.append((at, fmean(used)))
        if watts := [s.power_w for s in look if s.power_w is not None]:
            power.append((at, fmean(watts)))
        if mib := [s.memory_used_mib for s in look if s.device != CPU and s.memory_used_mib]:
            memory.append((at, max(mib)))
    return NodeCurves(*(tuple(sorted(curve)) for curve in (busy, power, memory)))


def _looks(samples: Sequence[Sample]) -> Iterator[list[Sample]]:
    """Yield the samples of one look at all devices: nvidia-smi gives each a time of its own."""
    look: list[Sample] = []
    seen: set[str] = set()
    for sample in samples:
        if sample.device in seen:
            yield look
            look, seen = [], set()
        look.append(sample)
        seen.add(sample.device)
    if look:
        yield look
