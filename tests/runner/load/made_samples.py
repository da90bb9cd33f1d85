"""Samples of devices made by hand, as the table that a file of them is read as."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runner.load import energy as energies
from runner.load import telemetry as telemetries
from runner.load.sample_table import MOST_EVENTS, UNTOLD, Floats, SampleTable
from runner.load.utilisation import NodeSamples
from runner.load.window import Window
from runner.terms.record import Energy, Telemetry, Thermals


@dataclass(frozen=True)
class Sample:
    """One look at one device; None: not told."""

    time: float
    device: str
    utilisation_percent: float | None
    memory_used_mib: float | None
    power_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    clock_events: int | None = None


def tabled(samples: Sequence[Sample]) -> SampleTable:
    """Return samples as columns."""
    names = tuple(dict.fromkeys(sample.device for sample in samples))

    def column(name: str) -> Floats:
        return np.array([getattr(sample, name) for sample in samples], dtype=np.float64)

    events = (sample.clock_events for sample in samples)
    return SampleTable(
        names,
        np.array([names.index(sample.device) for sample in samples], dtype=np.intp),
        column("time"),
        column("utilisation_percent"),
        column("memory_used_mib"),
        column("power_w"),
        column("energy_j"),
        column("temperature_c"),
        column("sm_clock_mhz"),
        np.array([UNTOLD if event is None else event & MOST_EVENTS for event in events], np.int64),
    )


def sampled(samples: Sequence[Sample], window: Window | None, *more: Any) -> NodeSamples:
    """Return a node with these samples."""
    return NodeSamples(tabled(samples), window, *more)


def energy(nodes: Sequence[NodeSamples]) -> Energy:
    """What all devices of all nodes took."""
    return energies.together([energies.of_node(node) for node in nodes])


def thermals(nodes: Sequence[NodeSamples]) -> Thermals:
    """How warm they were."""
    return energies.heat_of([energies.thermals_of_node(node) for node in nodes])


def telemetry(nodes: Sequence[NodeSamples]) -> Telemetry:
    """How whole their samples are."""
    return telemetries.together([telemetries.of_node(node) for node in nodes])


def rows_of(table: SampleTable) -> list[Sample]:
    """Return the looks of a table one by one."""

    def told(name: str, at: int) -> float | None:
        value = float(getattr(table, name)[at])
        return None if np.isnan(value) else value

    return [
        Sample(
            float(table.time[at]),
            table.names[table.device[at]],
            told("utilisation_percent", at),
            told("memory_used_mib", at),
            told("power_w", at),
            told("energy_j", at),
            told("temperature_c", at),
            told("sm_clock_mhz", at),
            None if table.clock_events[at] == UNTOLD else int(table.clock_events[at]),
        )
        for at in range(len(table))
    ]
