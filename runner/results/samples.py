"""What else a run's folder holds of its measurement: samples of its devices.

Reads `nodes/<rank>-<host>/samples.csv` (what roles/launch's sampler wrote), and `arrivals` beside
it, in an older campaign `timeline.jsonl` (or an archive of them). Without them nothing changes.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
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
    NodeSamples,
    energy_of,
    of_node,
    over_time,
    peak_memory,
    telemetry_of,
    thermals_of,
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


def with_fetched(
    record: Record,
    logs: Mapping[int, Path],
    devices: Mapping[int, Sequence[int]],
) -> Record:
    """Add to the record what is in files beside its logs (node rank to launcher.log).

    `devices` are the indices of those that the run had on a node, by rank; none there: all.
    Samples of a device's memory replace what the log says of it: they see it once a second. A
    node's processors are not a device: their memory is not the run's.
    """
    nodes = {rank: path.parent for rank, path in logs.items()}
    measured = record.measurement
    sampled = {rank: node for rank, node in nodes.items() if has_part(node, names.SAMPLES)}
    lasted = {rank: _lasted(node) for rank, node in nodes.items()}
    began = {rank: begin for rank, (begin, _) in lasted.items()}
    polls = {rank: _polls_of(node) for rank, node in nodes.items()}
    times = {
        rank: times_of_steps(measured.places.get(rank, ()), _looks(polls[rank], lasted[rank][1]))
        for rank in nodes
    }
    firsts = [
        FirstStep(first.by - begin, first.iteration)
        for rank, begin in began.items()
        if begin is not None
        and times[rank]
        and (first := min(times[rank], key=lambda step: step.by)).by > begin
    ]
    if firsts:
        measured = replace(measured, first_step=min(firsts))
    if sampled:
        windows = _windows(record, times, polls)
        measured = _sampled(record, measured, sampled, devices, windows, began)
    return record if measured is record.measurement else replace(record, measurement=measured)


def _windows(
    record: Record, times: Mapping[int, Sequence[Seen]], polls: Mapping[int, Sequence["_Poll"]]
) -> dict[int, Window | None]:
    """Return when the counted steps ran, by each node's clock; empty where none counts.

    A node that logs no steps has another's window, moved by how far the control node saw their
    clocks apart.
    """
    counted = counted_intervals(record)
    if not counted:
        return {}
    first_iteration = min(interval.iteration - interval.iterations for interval in counted) + 1
    last_iteration = max(interval.iteration for interval in counted)
    took = {
        step.iteration: _took(step, record.global_batch_size)
        for step in record.measurement.intervals
    }
    own_windows = {
        rank: steady_window(lines, (first_iteration, last_iteration), took)
        for rank, lines in times.items()
    }
    logging = next((rank for rank, window in own_windows.items() if window), None)
    other_window = None if logging is None else own_windows[logging]
    if logging is None or other_window is None:
        return own_windows
    return {
        rank: window or other_window.moved(_behind_s(polls[logging]) - _behind_s(polls[rank]))
        for rank, window in own_windows.items()
    }


def _took(line: Interval, global_batch_size: int | None) -> tuple[int, float | None]:
    """Return how many iterations a line covers, and the seconds of all with their pauses."""
    ms = step_time_ms(line, global_batch_size)
    return line.iterations, None if ms is None else (line.iterations * ms + line.paused_ms) / 1000


def _behind_s(polls: Sequence["_Poll"]) -> float:
    """Return by how much a node's clock is behind the control node's, and one answer's way; 0 where
    no poll says it.
    """
    return min((poll.received - poll.node for poll in polls if poll.received), default=0.0)


def _sampled(
    record: Record,
    measured: Measurement,
    nodes: Mapping[int, Path],
    devices: Mapping[int, Sequence[int]],
    windows: Mapping[int, Window | None],
    began: Mapping[int, float | None],
) -> Measurement:
    """Add what the samples of those nodes say that have some."""
    of_nodes, curves, peaks = [], {}, []
    for rank in sorted({*windows, *nodes}):
        # One node's samples are held at a time: those of all would be gigabytes.
        had = sorted(map(str, devices.get(rank, ())))
        table = read_samples(read_part(nodes[rank], names.SAMPLES) if rank in nodes else b"")
        if rank in nodes:
            if rank in devices:
                table = table[table["device"].isin([CPU, *had])]
            curves[rank] = over_time(table)
            peaks.append(peak_memory(table))
        if windows:
            name = record.hosts[rank] if rank < len(record.hosts) else f"node rank {rank}"
            of_run = () if record.device_kind == CPU else had
            of_nodes.append(of_node(NodeSamples(table, windows[rank], began[rank], of_run, name)))
    measured = replace(
        measured,
        busy={rank: busy for rank, (busy, _, _) in curves.items()},
        power_w={rank: power for rank, (_, power, _) in curves.items()},
        memory_mib={rank: memory for rank, (_, _, memory) in curves.items()},
        memory_used_mib=max(filter(None, peaks), default=measured.memory_used_mib),
    )
    if not of_nodes:
        return measured
    energy, heat = energy_of(of_nodes), thermals_of(of_nodes)
    if heat.mean_power_w is not None and energy.mean_power_w is not None:
        heat = replace(heat, mean_power_w=energy.mean_power_w)
    return replace(
        measured,
        utilisation=utilisation_of(of_nodes) or measured.utilisation,
        energy=energy,
        thermals=heat,
        telemetry=telemetry_of(of_nodes),
    )


def _lasted(node: Path) -> tuple[float | None, float]:
    """When the node's launcher started and ended, by its own clock.

    None and infinity where its done.json does not say.
    """
    try:
        ending: Ending | None = load(node / names.DONE, shape(Ending))
    except UnreadableError:
        ending = None
    begin = ending.started_at if ending else None
    wall_s = ending.wall_s if ending else None
    return begin, math.inf if begin is None or wall_s is None else begin + wall_s


class _Poll(NamedTuple):
    """A look at the log: node time, bytes by then, the control node's time; 0: it does not say."""

    node: float
    log_bytes: int
    received: float


def _looks(polls: Iterable[_Poll], ended: float) -> list[tuple[float, int]]:
    """Return when a node's log had how many bytes, in order.

    What a poll saw only after the launcher had ended was there when it ended.
    """
    return sorted((min(poll.node, ended), poll.log_bytes) for poll in polls)


def looks(node: Path) -> list[tuple[float, int]]:
    """Return when the log in a node's folder had how many bytes, in order."""
    return _looks(_polls_of(node), _lasted(node)[1])


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
