"""What else a run's folder holds of its measurement: device samples, TensorBoard files.

Reads `nodes/<rank>-<host>/samples.csv` (what roles/launch's sampler wrote), `timeline.jsonl` beside
it, and `nodes/<rank>-<host>/tensorboard/**/*tfevents*`. Without them nothing changes.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from node.files import read_start
from node.parsing import parse
from node.schema import Fields, Number, UnfitError, Whole
from node.supervisor.news import EVENTS_BYTES, EVENTS_MOST
from runner.base.shape import shape
from runner.figures.summary import counted_intervals
from runner.folder import names
from runner.folder.endings import Ending
from runner.folder.stored import UnreadableError, load
from runner.load import energy, tensorboard
from runner.load.over_time import CPU, over_time
from runner.load.telemetry import telemetry
from runner.load.utilisation import (
    Sample,
    first_step,
    peak_memory,
    steady_window,
    times_of_steps,
    utilisation,
)
from runner.logs.kind import Readers
from runner.logs.numbers import quantity
from runner.logs.smi import npu_readings
from runner.systems.common.registry import load_system
from runner.terms.record import Measurement, Record

_COLUMN = re.compile(r"([a-z_.]+)(?: \[[^][]+\])?")
_NUMBER = re.compile(r"(\S+)(?: .+)?")
_POLL_LINE = re.compile(rb"^\{[^\r\n]{1,1000}\}$", re.MULTILINE)
_POLL = Fields({"node": Number(), "log_bytes": Whole()})
# The first line of two that npu-smi has for a chip: its number and name, its health.
_NPU = re.compile(r"\|\s*(\d+)\s+[A-Za-z0-9]\S*\s+\|\s*[A-Za-z]+\s+\|")
MOST_BYTES = 64 << 20  # of samples or polls that are read: days of them
MOST_POLLS = 1_000_000  # of a run: eleven days of one a second


def with_fetched(
    record: Record, logs: Mapping[int, Path], devices: Mapping[int, Sequence[int]]
) -> Record:
    """Add to the record what lies beside its logs (node rank to launcher.log).

    `devices` are the indices of those that the run had on a node, by rank; none there: all. Samples
    of a device's memory replace what the log says of it: they see it once a second. A node's
    processors are no device: their memory is not the run's.
    """
    measured = record.measurement
    nodes = {rank: path.parent for rank, path in logs.items()}
    sampled = {rank: node for rank, node in nodes.items() if (node / names.SAMPLES).is_file()}
    lasted = {rank: _lasted(node) for rank, node in nodes.items()}
    began = {rank: begin for rank, (begin, _) in lasted.items()}
    readers = load_system(record.system).readers_of(record.parameters)
    times = {rank: _times(readers, node, lasted[rank][1]) for rank, node in nodes.items()}
    if sampled:
        measured = _sampled(record, sampled, devices, times, began)
    starts = [first_step(times[rank], began[rank]) for rank in nodes]
    if first := min((start for start in starts if start), default=None):
        measured = replace(measured, first_step=first)
    if not any(interval.loss is not None for interval in measured.intervals):
        events = [path for node in nodes.values() for path in _events(node / names.EVENTS)]
        if events:
            measured = replace(measured, curve=tensorboard.losses(tensorboard.scalars(events)))
    return record if measured is record.measurement else replace(record, measurement=measured)


def _events(folder: Path) -> list[Path]:
    """List a node's event files: as many, and of such sizes, as its supervisor gives."""
    if not folder.is_dir():
        return []
    files = (path for path in sorted(folder.rglob("*tfevents*")) if path.is_file())
    return [path for path in files if path.stat().st_size <= EVENTS_BYTES][:EVENTS_MOST]


def _sampled(
    record: Record,
    nodes: Mapping[int, Path],
    devices: Mapping[int, Sequence[int]],
    times: Mapping[int, Sequence[tuple[int, float]]],
    began: Mapping[int, float | None],
) -> Measurement:
    measured = record.measurement
    samples = {
        str(rank): [
            sample
            for sample in read_samples(read_start(node / names.SAMPLES, MOST_BYTES) or b"")
            if rank not in devices or sample.device in {CPU, *map(str, devices[rank])}
        ]
        for rank, node in nodes.items()
    }
    memory = peak_memory(
        {rank: [s for s in each if s.device != CPU] for rank, each in samples.items()}
    )
    over = {rank: over_time(samples[str(rank)]) for rank in nodes}
    counted = counted_intervals(record)
    busy = None
    power, heat, whole = measured.energy, measured.thermals, measured.telemetry
    if counted:
        first = min(interval.iteration - interval.iterations for interval in counted) + 1
        last = max(interval.iteration for interval in counted)
        # Only one node logs the steps; the others' samples are laid over its clock, which the
        # nodes share to a second or so (the doctor compares them).
        windows = {rank: steady_window(times[rank], (first, last)) for rank in nodes}
        any_window = next((window for window in windows.values() if window), None)
        of_nodes = [(samples[str(rank)], windows[rank] or any_window) for rank in nodes]
        with_begin = [
            (*of_node, began[rank]) for of_node, rank in zip(of_nodes, nodes, strict=True)
        ]
        busy = utilisation(of_nodes)
        power = energy.energy(of_nodes)
        heat = energy.thermals(with_begin)
        unsampled = [((), any_window, None)] * (len(record.hosts) - len(nodes))
        had = [sorted(map(str, devices.get(rank, ()))) for rank in nodes]
        whole = telemetry([*with_begin, *unsampled], [*had, *([[]] * len(unsampled))])
    return replace(
        measured,
        energy=power,
        thermals=heat,
        telemetry=whole,
        memory_used_mib=measured.memory_used_mib if memory is None else memory,
        utilisation=busy or measured.utilisation,
        busy={rank: curves.busy for rank, curves in over.items()},
        power_w={rank: curves.power_w for rank, curves in over.items()},
        memory_mib={rank: curves.memory_mib for rank, curves in over.items()},
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


def _times(readers: Readers, node: Path, ended: float) -> list[tuple[int, float]]:
    """Return (iteration, node time in s) of the steps that polls saw in a node's log.

    What a poll saw only after the launcher had ended was there when it ended.
    """
    try:
        told = _polls(read_start(node / names.TIMELINE, MOST_BYTES) or b"")
        polls = [(min(time, ended), size) for time, size in told]
        return times_of_steps(readers, (node / names.LOG).read_bytes(), polls) if polls else []
    except OSError:
        return []


def _polls(text: bytes) -> Iterator[tuple[float, int]]:
    """Yield (node time, bytes of log) of each poll; a line torn by a crash is passed over."""
    for line in islice(_POLL_LINE.finditer(text), MOST_POLLS):
        try:
            poll = parse(line[0], _POLL)
        except UnfitError:
            continue
        yield poll["node"], poll["log_bytes"]


def read_samples(data: bytes) -> list[Sample]:
    """Read the rows of samples.csv, in any of its three forms; what is torn or no number is
    left out.
    """
    samples: list[Sample] = []
    columns: list[str] = []
    now: float | None = None
    npu = "0"
    for line in data.decode("utf-8", "replace").splitlines():
        fields = [field.strip() for field in line.split(",")]
        if fields[0] == "timestamp" and len(fields) == 2:  # before each of npu-smi's tables
            now = _time(fields[1])
        elif fields[0] == "timestamp":
            matches = [_COLUMN.fullmatch(field) for field in fields]
            columns = [match[1] if match else "" for match in matches]
        elif columns and len(fields) == len(columns):
            row = dict(zip(columns, fields, strict=True))
            time = _time(row["timestamp"])
            busy = _number(row.get("utilization.gpu") or row.get("utilization.cpu") or "")
            if time is not None and (busy is not None or "memory.used" in row):
                samples.append(_sample(time, busy, row))
        elif now is not None:
            if match := _NPU.match(line):
                npu = match[1]
            for used, percent in npu_readings(line.encode()):
                samples.append(Sample(now, npu, percent, used))
    return samples


def _sample(time: float, busy: float | None, row: Mapping[str, str]) -> Sample:
    """Make a sample of a row's fields."""
    energy_mj = _number(row.get("total_energy", ""))
    events = row.get("clocks_event_reasons.active", "")
    return Sample(
        time=time,
        device=row.get("index", CPU),
        utilisation_percent=busy,
        memory_used_mib=_number(row.get("memory.used", "")),
        power_w=_number(row.get("power.draw", "")),
        energy_j=None if energy_mj is None else energy_mj / 1000,
        temperature_c=_number(row.get("temperature.gpu", "")),
        sm_clock_mhz=_number(row.get("clocks.current.sm", "")),
        clock_events=int(events, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", events) else None,
    )


def _time(text: str) -> float | None:
    """Read epoch seconds, of them or of nvidia-smi's `2026/11/21 09:48:00.123` in UTC."""
    if (seconds := quantity(text)) is not None:
        return seconds
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _number(text: str) -> float | None:
    """Read `97 %` or `1024 MiB`; `[N/A]` is none."""
    match = _NUMBER.fullmatch(text)
    return quantity(match[1]) if match else None
