"""How busy the devices were while the counted steps ran: samples laid over the steps. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from runner.load.window import Seen, Window
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


class NodeSamples(NamedTuple):
    """A node's samples (none: it was not sampled), its window, when its launcher started (node
    time), and the devices that the run had; no names: those that have samples. `name` is what
    people call it.
    """

    samples: Sequence[Sample]
    window: Window | None
    began: float | None = None
    devices: Sequence[str] = ()
    name: str = "a node"


def first_step(steps: Sequence[Seen], began: float | None) -> FirstStep | None:
    """Return the first logged step of a node whose launcher began then; None where either is not
    known.
    """
    if began is None or not steps:
        return None
    first = min(steps, key=lambda step: step.by)
    return FirstStep(first.by - began, first.iteration) if first.by > began else None


def utilisation(nodes: Iterable[NodeSamples]) -> Utilisation | None:
    """Average over all devices of all nodes each device's mean within its node's window."""
    means = []
    for samples, window, *_ in nodes:
        if window is None:
            continue
        by_device: dict[str, list[float]] = {}
        for sample in samples:
            if window.surely(sample.time) and sample.utilisation_percent is not None:
                by_device.setdefault(sample.device, []).append(sample.utilisation_percent)
        means += [fmean(values) for values in by_device.values()]
    return Utilisation(fmean(means), "samples") if means else None


def peak_memory(samples: Mapping[str, Sequence[Sample]]) -> float | None:
    """Return the memory used on the fullest device of all hosts, over the whole run, in MiB."""
    return max(
        (s.memory_used_mib for each in samples.values() for s in each if s.memory_used_mib),
        default=None,
    )
