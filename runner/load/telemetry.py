"""How whole the samples of a run's devices are, and what was on them before it began. Pure."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from runner.load.energy import by_device
from runner.load.utilisation import NodeSamples, Sample
from runner.load.window import Window
from runner.terms.record import Telemetry


def telemetry(nodes: Iterable[NodeSamples]) -> Telemetry:
    """Look at the samples of the nodes' devices within their windows, and before they began."""
    gaps: list[float] = []
    before: list[float] = []
    missing = ""
    for samples, window, began, had, _ in nodes:
        mib = (s.memory_used_mib for s in samples if began is not None and s.time < began)
        before += [used for used in mib if used is not None]
        if not samples:
            missing = "a node's devices were not sampled"
        elif window is None:
            missing = "when the counted steps ran is not known"
        else:
            sampled = by_device(samples)
            gaps += [_gap(sampled.get(device, ()), window) for device in had]
    gap = None if missing else max(gaps, default=0.0)
    return Telemetry(gap, missing, max(before, default=None))


def _gap(samples: Sequence[Sample], window: Window) -> float:
    """Return the longest time within the window without a sample."""
    times = sorted(s.time for s in samples if window.begin <= s.time <= window.end)
    return max(after - before for before, after in pairwise([window.begin, *times, window.end]))
