"""How whole the samples of a run's devices are, and what was on them before it began. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from runner.load.sample_table import SampleTable, finite_values
from runner.load.utilisation import NodeSamples
from runner.load.window import Window
from runner.terms.record import Telemetry


class NodeTelemetry(NamedTuple):
    """A node's part: the longest time without a sample, MiB in use before; None: not known."""

    gap_s: float | None
    missing: str
    before_mib: float | None


def together(nodes: Iterable[NodeTelemetry]) -> Telemetry:
    """Put the parts of a run's nodes together."""
    nodes = list(nodes)
    missing = next((node.missing for node in reversed(nodes) if node.missing), "")
    gaps = [node.gap_s for node in nodes if node.gap_s is not None]
    before = [node.before_mib for node in nodes if node.before_mib is not None]
    gap = None if missing else max(gaps, default=0.0)
    return Telemetry(gap, missing, max(before, default=None))


def of_node(node: NodeSamples) -> NodeTelemetry:
    """Look at the samples of a node's devices within its window, and before it began."""
    table, window = node.samples, node.window
    waiting = table.time < (-np.inf if node.began is None else node.began)
    used = finite_values(table.memory_used_mib[waiting])
    before = float(used.max()) if len(used) else None
    if not len(table):
        return NodeTelemetry(None, "a node's devices were not sampled", before)
    if window is None:
        return NodeTelemetry(None, "when the counted steps ran is not known", before)
    sampled = table.by_device()
    gaps = [_gap(sampled.get(device), window) for device in node.devices]
    return NodeTelemetry(max(gaps, default=0.0), "", before)


def _gap(samples: SampleTable | None, window: Window) -> float:
    """Return the longest time within the window without a sample."""
    times = samples.time if samples else np.empty(0)
    within = times[(window.begin <= times) & (times <= window.end)]
    return float(np.diff([window.begin, *within, window.end]).max())
