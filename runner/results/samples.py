"""What else a run's folder holds of its measurement: samples of its devices.

Reads `nodes/<rank>-<host>/samples.csv` (what roles/launch's sampler wrote), and `arrivals` beside
it, in an older campaign `timeline.jsonl` (or an archive of them). Without them nothing changes.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from runner.base.dataclass_schema import shape
from runner.figures.counted_steps import counted_intervals, step_time_ms
from runner.folder import names
from runner.folder.attempt import clock_ahead_s
from runner.folder.endings import Ending
from runner.folder.packed import has_part, read_part
from runner.folder.stored import UnreadableError, load
from runner.logs.numbers import quantity, whole_number
from runner.results.arrivals import arrivals_of
from runner.results.sample_table import CPU, read_samples
from runner.results.sampled import (
    energy_of,
    of_node,
    over_time,
    peak_memory,
    telemetry_of,
    utilisation_of,
)
from runner.results.window import Seen, Window, steady_window, times_of_steps
from runner.terms.record import FirstStep, Interval, Measurement, Record

# As bench and supervisors wrote them.
_SECONDS = rb"(\d{1,10}\.\d{1,12})"
_POLL = re.compile(
    rb'^\{(?:"sent": %b, "received": %b, )?"node": %b, "log_bytes": (\d{1,15})\}$'
    % (_SECONDS, _SECONDS, _SECONDS),
    re.MULTILINE,
)
MOST_POLLS = 1_000_000  # of a run: eleven days of one a second


class _Poll(NamedTuple):
    """A look at the log: node time, bytes by then, the control node's time; 0: it does not say."""

    node: float
    log_bytes: int
    received: float


class _Node(NamedTuple):
    """A node's folder, when its launcher started and ended by its own clock (None and infinity: its
    done.json does not say), and the looks at its log.
    """

    path: Path
    began: float | None
    ended: float
    polls: Sequence[_Poll]

    @property
    def looks(self) -> list[tuple[float, int]]:
        """When its log had how many bytes, in order. What a poll saw only after the launcher had
        ended was there when it ended.
        """
        return sorted((min(poll.node, self.ended), poll.log_bytes) for poll in self.polls)

    @property
    def behind_s(self) -> float:
        """By how much its clock is behind the control node's, and one answer's way; 0 where no poll
        says it.
        """
        apart = (poll.received - poll.node for poll in self.polls if poll.received)
        return min(apart, default=0.0)


def with_fetched(
    record: Record, logs: Mapping[int, Path], devices: Mapping[int, Sequence[int]]
) -> Record:
    """Add to the record what is in files beside its logs (node rank to launcher.log).

    `devices` are the indices of those that the run had on a node, by rank; none there: all.
    Samples of a device's memory replace what the log says of it: they see it once a second. A
    node's processors are not a device: their memory is not the run's.
    """
    measured = record.measurement
    nodes = {rank: _node(path.parent) for rank, path in logs.items()}
    lines = {
        rank: times_of_steps(measured.places.get(rank, ()), node.looks)
        for rank, node in nodes.items()
    }
    firsts = [
        FirstStep(first.by - node.began, first.iteration)
        for rank, node in nodes.items()
        if node.began is not None
        and lines[rank]
        and (first := min(lines[rank], key=lambda step: step.by)).by > node.began
    ]
    if firsts:
        measured = replace(measured, first_step=min(firsts))
    if any(has_part(node.path, names.SAMPLES) for node in nodes.values()):
        measured = _sampled(record, measured, nodes, devices, _windows(record, nodes, lines))
    return record if measured is record.measurement else replace(record, measurement=measured)


def _windows(
    record: Record, nodes: Mapping[int, _Node], lines: Mapping[int, Sequence[Seen]]
) -> dict[int, Window | None]:
    """Return when the counted steps ran, by each node's clock; empty where none counts.

    A node that logs no steps has another's window, moved by how far the control node saw their
    clocks apart.
    """
    steps = counted_intervals(record)
    if not steps:
        return {}
    first_iteration = min(step.iteration - step.iterations for step in steps) + 1
    counted = first_iteration, max(step.iteration for step in steps)
    took = {
        step.iteration: _took(step, record.global_batch_size)
        for step in record.measurement.intervals
    }
    windows = {rank: steady_window(seen, counted, took) for rank, seen in lines.items()}
    logging = next((rank for rank, window in windows.items() if window), None)
    if logging is None or (theirs := windows[logging]) is None:
        return windows
    behind_s = nodes[logging].behind_s
    return {
        rank: own or theirs.moved(behind_s - nodes[rank].behind_s) for rank, own in windows.items()
    }


def _took(line: Interval, global_batch_size: int | None) -> tuple[int, float | None]:
    """Return how many iterations a line covers, and the seconds of all with their pauses."""
    ms = step_time_ms(line, global_batch_size)
    return line.iterations, None if ms is None else (line.iterations * ms + line.paused_ms) / 1000


def _sampled(
    record: Record,
    measured: Measurement,
    nodes: Mapping[int, _Node],
    devices: Mapping[int, Sequence[int]],
    windows: Mapping[int, Window | None],
) -> Measurement:
    """Add what the samples say of those nodes that have some."""
    of_nodes, curves, peaks = [], {}, []
    for rank, node in sorted(nodes.items()):
        # One node's samples are held at a time: those of all would be gigabytes.
        had = sorted(map(str, devices.get(rank, ())))
        was_sampled = has_part(node.path, names.SAMPLES)
        table = read_samples(read_part(node.path, names.SAMPLES) if was_sampled else b"")
        if was_sampled:
            if rank in devices:
                table = table[table["device"].isin([CPU, *had])]
            curves[rank] = over_time(table)
            peaks.append(peak_memory(table))
        if windows:
            name = record.hosts[rank] if rank < len(record.hosts) else f"node rank {rank}"
            of_run = () if record.device_kind == CPU else had
            of_nodes.append(of_node(table, windows[rank], node.began, of_run, name))
    measured = replace(
        measured,
        busy={rank: busy for rank, (busy, _, _) in curves.items()},
        power_w={rank: power for rank, (_, power, _) in curves.items()},
        memory_mib={rank: memory for rank, (_, _, memory) in curves.items()},
        memory_used_mib=max(filter(None, peaks), default=measured.memory_used_mib),
    )
    if not of_nodes:
        return measured
    energy = energy_of(of_nodes)
    return replace(
        measured,
        utilisation=utilisation_of(of_nodes) or measured.utilisation,
        energy=energy,
        telemetry=telemetry_of(of_nodes, energy),
    )


def _node(path: Path) -> _Node:
    try:
        ending: Ending | None = load(path / names.DONE, shape(Ending))
    except UnreadableError:
        ending = None
    began, wall_s = (ending.started_at, ending.wall_s) if ending else (None, None)
    ended = math.inf if began is None or wall_s is None else began + wall_s
    return _Node(path, began, ended, _polls_of(path))


def looks(node: Path) -> list[tuple[float, int]]:
    """Return when the log in a node's folder had how many bytes, in order."""
    return _node(node).looks


def _polls_of(node: Path) -> list[_Poll]:
    """Return the looks at a node's log: two for each arrival, before it and then."""
    if (arrivals := arrivals_of(node)).entries:
        ahead = clock_ahead_s(node)
        sizes = [0, *(entry.size for entry in arrivals.entries)]
        return [
            _Poll(at, size, at - ahead if ahead else 0.0)
            for before, (at_s, after, error_s) in zip(sizes, arrivals.entries, strict=False)
            for at, size in (
                (arrivals.began + at_s - error_s, before),
                (arrivals.began + at_s, after),
            )
        ]
    try:
        text = read_part(node, names.TIMELINE)
    except OSError:
        return []
    return [
        _Poll(quantity(poll[3]) or 0.0, whole_number(poll[4]) or 0, quantity(poll[2]) or 0.0)
        for poll in islice(_POLL.finditer(text), MOST_POLLS)
    ]
