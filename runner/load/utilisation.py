"""How busy the devices were while the counted steps ran: samples laid over the steps. Pure."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from runner.load.sample_table import CPU, SampleTable, finite_values
from runner.load.window import Seen, Window
from runner.terms.record import FirstStep, Utilisation


class NodeSamples(NamedTuple):
    """A node's samples (none: it was not sampled), its window, when its launcher started (node
    time), and the devices that the run had; no names: those that have samples. `name` is what
    people call it.
    """

    samples: SampleTable
    window: Window | None
    began: float | None = None
    devices: Sequence[str] = ()
    name: str = "a node"

    @property
    def within(self) -> SampleTable:
        """Return the samples of when the counted steps surely ran; none where nobody knows that."""
        table = self.samples
        early, late = self.window.sure if self.window else (np.inf, -np.inf)
        return table.where((table.time >= early) & (table.time <= late))


def first_step(steps: Sequence[Seen], began: float | None) -> FirstStep | None:
    """Return the first logged step of a node whose launcher began then; None where either is not
    known.
    """
    if began is None or not steps:
        return None
    earliest = min(steps, key=lambda step: step.by)
    return FirstStep(earliest.by - began, earliest.iteration) if earliest.by > began else None


def means(node: NodeSamples) -> list[float]:
    """Return each device's mean utilisation in percent within the node's window."""
    within = node.within
    device_means = (
        finite_values(within.utilisation_percent[within.device == code])
        for code in range(len(within.names))
    )
    return [float(values.mean()) for values in device_means if len(values)]


def mean_of(device_means: Sequence[float]) -> Utilisation | None:
    """Average the means of all devices of all nodes."""
    return Utilisation(fmean(device_means), "samples") if device_means else None


def peak_memory(table: SampleTable) -> float | None:
    """Return the memory used on the fullest device of a node, over the whole run, in MiB."""
    used = finite_values(table.of({*table.names} - {CPU}).memory_used_mib)
    return float(used.max()) or None if len(used) else None
