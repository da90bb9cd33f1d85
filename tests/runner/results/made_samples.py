"""Samples of devices made by hand, as the table that a file of them is read as."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from runner.results.sample_table import FIGURES, MOST_EVENTS, UNTOLD
from runner.results.sampled import OfNode, energy_of, of_node, telemetry_of
from runner.results.window import Window
from runner.terms.record import Energy, Telemetry


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


def tabled(samples: Sequence[Sample]) -> pd.DataFrame:
    """Return samples as columns."""

    def column(name: str) -> list[Any]:
        return [getattr(sample, name) for sample in samples]

    events = (UNTOLD if event is None else event & MOST_EVENTS for event in column("clock_events"))
    return pd.DataFrame(
        {
            "device": pd.Categorical(column("device")),
            **{name: np.array(column(name), dtype=np.float64) for name in FIGURES},
            "clock_events": np.array([*events], dtype=np.int64),
        }
    )


def sampled(samples: Sequence[Sample], window: Window | None, *more: Any) -> OfNode:
    """Return a node with these samples."""
    return of_node(tabled(samples), window, *more)


def energy(nodes: Sequence[OfNode]) -> Energy:
    """What all devices of all nodes took."""
    return energy_of(nodes)


def telemetry(nodes: Sequence[OfNode]) -> Telemetry:
    """How warm they were, and how whole their samples are."""
    return telemetry_of(nodes, energy_of(nodes))


def rows_of(table: pd.DataFrame) -> list[Sample]:
    """Return the looks of a table one by one."""

    def told(row: Any, name: str) -> Any:
        value = getattr(row, name)
        return None if value == UNTOLD or value != value else value

    names = [column.name for column in fields(Sample)]
    return [Sample(*(told(row, name) for name in names)) for row in table.itertuples()]
