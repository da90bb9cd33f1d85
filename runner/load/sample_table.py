"""A node's samples as columns: a row for each look at a device, in the order of its file. Pure.

A day of eight GPUs is 700,000 rows, and a campaign has thousands of nodes: pandas reads and numpy
adds up a row in about a microsecond.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runner.logs.numbers import LARGEST_QUANTITY, quantity
from runner.logs.smi import npu_readings

if TYPE_CHECKING:
    from pandas import DataFrame

Floats = NDArray[np.float64]
CPU = "cpu"  # the one device of a node without devices: all its processors
UNTOLD = -1  # as clock events: the device does not say
MOST_EVENTS = (1 << 63) - 1
_ABSENT = "[N/A]"
_TIMES, _DEVICE, _EVENTS = "timestamp", "index", "clocks_event_reasons.active"
_BUSY, _USED = "utilization.gpu", "memory.used"
_FIGURES = ("power.draw", "total_energy", "temperature.gpu", "clocks.current.sm")
_READ = frozenset((_TIMES, _DEVICE, _EVENTS, _BUSY, _USED, *_FIGURES))
_HEADER = re.compile(rb"timestamp *,[^\r\n]*")
_COLUMN = re.compile(r"([a-z_.]+)(?: \[([^][]+)\])?")  # and its unit
_FIGURE = re.compile(r"(\S+)(?: .+)?")
_EVENT_BITS = re.compile(r"0x[0-9a-fA-F]{1,16}")
# The first line of two that npu-smi has for a chip: its number and name, its health.
_NPU = re.compile(rb"\|\s*(\d+)\s+[A-Za-z0-9]\S*\s+\|\s*[A-Za-z]+\s+\|")


@dataclass(frozen=True)
class SampleTable:
    """Samples as columns of one length; NaN: not told. `device` has indices into `names`."""

    names: tuple[str, ...]
    device: NDArray[np.intp]
    time: Floats  # s, by the node's clock
    utilisation_percent: Floats
    memory_used_mib: Floats
    power_w: Floats
    energy_j: Floats  # since some time before the run
    temperature_c: Floats
    sm_clock_mhz: Floats
    clock_events: NDArray[np.int64]  # NVML's bits; UNTOLD

    def __len__(self) -> int:
        return len(self.time)

    def where(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "SampleTable":
        """Return some of the rows: where a mask is true, or by their numbers, in that order."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns)

    def of(self, devices: Collection[str]) -> "SampleTable":
        """Return the rows of these devices."""
        is_of_devices = np.array([name in devices for name in self.names], dtype=bool)
        return self if is_of_devices.all() else self.where(is_of_devices[self.device])

    def by_device(self) -> dict[str, "SampleTable"]:
        """Return each device's rows by time, devices in the order of their first row in time."""
        order = np.argsort(self.time, kind="stable")
        codes = self.device[order]
        device_codes, first_rows = np.unique(codes, return_index=True)
        return {
            self.names[code]: self.where(order[codes == code])
            for code in device_codes[np.argsort(first_rows)]
        }


_COLUMNS = tuple(column.name for column in fields(SampleTable))[1:]


def finite_values(values: Floats) -> Floats:
    """Return the figures of a column that were told."""
    return values[~np.isnan(values)]


def read_samples(data: bytes) -> SampleTable:
    """Read samples.csv, in any of its three forms: the sampler's, nvidia-smi's, and npu-smi's
    tables with a line `timestamp, SECONDS` before each. What is torn or no number is left out.
    """
    import pandas as pd  # takes most of a second to import

    frames = [
        _rows(header, b"".join(body for _, body in bodies)) if len(header) > 2 else _npus(bodies)
        for header, bodies in groupby(_sections(data), key=lambda section: _kind(section[0]))
    ]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames or [_npus([])])
    rows = len(frame)

    def column(name: str) -> Floats:
        values = np.asarray(frame[name] if name in frame else [np.nan] * rows, dtype=np.float64)
        return np.where((values >= 0) & (values <= LARGEST_QUANTITY), values, np.nan)

    codes, names = pd.factorize(frame[_DEVICE] if _DEVICE in frame else np.full(rows, CPU))
    bits = np.full(rows, UNTOLD, dtype=np.int64)
    if _EVENTS in frame:
        at, words = pd.factorize(frame[_EVENTS])
        bits = np.array([*map(_events, words), UNTOLD], dtype=np.int64)[at]
    return SampleTable(
        tuple(map(str, names)),
        codes.astype(np.intp),
        column(_TIMES),
        column(_BUSY),
        column(_USED),
        column("power.draw"),
        column("total_energy") / 1000,
        column("temperature.gpu"),
        column("clocks.current.sm"),
        bits,
    )


def _sections(data: bytes) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Yield each header's words, and the bytes up to the next one."""
    found = _HEADER.finditer(data)
    heads = [head for head in found if data[max(head.start() - 1, 0) : head.start()] in b"\r\n"]
    ends = [*(head.start() for head in heads[1:]), len(data)]
    for head, end in zip(heads, ends, strict=False):
        words = head[0].decode("utf-8", "replace").split(",")
        yield tuple(word.strip() for word in words), data[head.end() : end]


def _kind(header: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a header; of npu-smi's, whose second word is a time, nothing."""
    return header if len(header) > 2 else ()


def _rows(header: Sequence[str], body: bytes) -> "DataFrame":
    """Read rows with these columns."""
    import pandas as pd

    matches = [_COLUMN.fullmatch(word) for word in header]
    columns = [match[1] if match else "" for match in matches]
    if _BUSY not in columns:
        columns = [_BUSY if name == "utilization.cpu" else name for name in columns]
    known = {name: at for at, name in enumerate(columns) if name in _READ}  # the last of two
    columns = [name if known.get(name) == at else str(at) for at, name in enumerate(columns)]
    lines = b"".join(
        line + b"\n" for line in body.splitlines() if line.count(b",") == len(columns) - 1
    )
    words = dict.fromkeys((_DEVICE, _EVENTS), "category")
    figures = sorted({*known} - {*words})

    def read(text: bytes, kinds: Mapping[str, str]) -> "DataFrame":
        return pd.read_csv(
            io.BytesIO(text),
            header=None,
            names=columns,
            usecols=[*known],
            dtype={name: kinds.get(name, "float64") for name in columns},
            na_values={name: [_ABSENT] for name in figures},
            keep_default_na=False,
            skipinitialspace=True,
            quoting=csv.QUOTE_NONE,
            encoding_errors="replace",
        )

    bare = lines
    for unit, ends in {(match[2], match is matches[-1]) for match in matches if match and match[2]}:
        end = b"\n" if ends else b","
        bare = bare.replace(b" " + unit.encode() + end, end)
    try:
        frame = read(bare, words)
    except ValueError:  # a word that is no number: one by one
        frame = read(lines, dict.fromkeys(columns, "str"))
        for name in figures:
            value = _time if name == _TIMES else _number
            values = {text: value(str(text).strip()) for text in frame[name].unique()}
            frame[name] = frame[name].map(values).astype("float64")
    frame[_DEVICE] = frame[_DEVICE] if _DEVICE in known else CPU
    needed = [_TIMES, *([] if _USED in known else [_BUSY])]
    if not {*needed} <= {*known}:
        return frame[:0]
    told = np.all([frame[name].between(0, LARGEST_QUANTITY) for name in needed], axis=0)
    return frame if told.all() else frame[told]


def _npus(tables: Iterable[tuple[Sequence[str], bytes]]) -> "DataFrame":
    """Read npu-smi's tables, each with its time."""
    import pandas as pd

    rows, chip = [], "0"
    for (_, when), body in tables:
        if (now := _time(when)) is None:
            continue
        for line in body.splitlines():
            if match := _NPU.match(line):
                chip = match[1].decode()
            rows += [(now, chip, busy, used) for used, busy in npu_readings(line)]
    return pd.DataFrame(rows, columns=[_TIMES, _DEVICE, _BUSY, _USED])


def _events(word: str) -> int:
    return int(word, 16) & MOST_EVENTS if _EVENT_BITS.fullmatch(word) else UNTOLD


def _time(text: str) -> float | None:
    """Read epoch seconds, of them or of nvidia-smi's `2026/11/21 09:48:00.123` in UTC."""
    if (seconds := quantity(text)) is not None:
        return seconds
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _number(text: str) -> float | None:
    """Read `97` or `97 words`; None of `[N/A]`."""
    match = _FIGURE.fullmatch(text)
    return quantity(match[1]) if match else None
