"""A node's samples.csv as a table: a row for each look at a device, in the order of its file. Pure.

Its columns (absent: NaN): `device`, a category; `time` in s by the node's clock; what the device
says of itself, `energy_j` since some time before the run; `clock_events`, NVML's bits or UNTOLD.
A day of eight GPUs is 700,000 rows, and a campaign has thousands of nodes.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from runner.logs.numbers import LARGEST_QUANTITY, quantity
from runner.logs.smi import npu_readings

if TYPE_CHECKING:
    from pandas import DataFrame

CPU = "cpu"  # the one device of a node without devices: all its processors
UNTOLD = -1  # as clock events: the device does not say
MOST_EVENTS = (1 << 63) - 1
_ABSENT = "[N/A]"
_COLUMNS = {
    "timestamp": "time",
    "index": "device",
    "utilization.cpu": "utilisation_percent",
    "utilization.gpu": "utilisation_percent",
    "memory.used": "memory_used_mib",
    "power.draw": "power_w",
    "total_energy": "energy_j",
    "temperature.gpu": "temperature_c",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks_event_reasons.active": "clock_events",
}
_WORDS = ("device", "clock_events")
FIGURES = tuple(name for name in dict.fromkeys(_COLUMNS.values()) if name not in _WORDS)
_HEADER = re.compile(rb"timestamp *,[^\r\n]*")
_COLUMN = re.compile(r"([a-z_.]+)(?: \[([^][]+)\])?")  # and its unit
_FIGURE = re.compile(r"(\S+)(?: .+)?")
_EVENT_BITS = re.compile(r"0x[0-9a-fA-F]{1,16}")
# The first line of two that npu-smi has for a chip: its number and name, its health.
_NPU = re.compile(rb"\|\s*(\d+)\s+[A-Za-z0-9]\S*\s+\|\s*[A-Za-z]+\s+\|")


def read_samples(data: bytes) -> "DataFrame":
    """Read samples.csv, in any of its three forms: the sampler's, nvidia-smi's, and npu-smi's
    tables with a line `timestamp, SECONDS` before each. What is torn or no number is left out.
    """
    import pandas as pd  # takes most of a second to import

    frames = [
        _rows(header, b"".join(body for _, body in bodies)) if len(header) > 2 else _npus(bodies)
        for header, bodies in groupby(_sections(data), key=lambda section: _kind(section[0]))
    ]
    frame = frames[0] if len(frames) == 1 else pd.concat(frames or [_npus([])], ignore_index=True)
    absent = np.full(len(frame), np.nan)
    figures = {name: np.asarray(frame.get(name, absent), np.float64) for name in FIGURES}
    told = {
        name: np.where((values >= 0) & (values <= LARGEST_QUANTITY), values, np.nan)
        for name, values in figures.items()
    }
    told["energy_j"] /= 1000
    codes, names = pd.factorize(frame["device"])
    events = np.full(len(frame), UNTOLD, dtype=np.int64)
    if "clock_events" in frame:
        at, words = pd.factorize(frame["clock_events"])
        events = np.array([*map(_events, words), UNTOLD], dtype=np.int64)[at]
    device = pd.Categorical.from_codes(codes, pd.Index([*map(str, names)]))
    return pd.DataFrame({"device": device, **told, "clock_events": events})


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
    names = [_COLUMNS.get(match[1], "") if match else "" for match in matches]
    known = {name: at for at, name in enumerate(names) if name}  # the last of two
    columns = [name if known.get(name) == at else str(at) for at, name in enumerate(names)]
    lines = b"".join(
        line + b"\n" for line in body.splitlines() if line.count(b",") == len(columns) - 1
    )
    figures = sorted({*known} - {*_WORDS})

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
        frame = read(bare, dict.fromkeys(_WORDS, "category"))
    except ValueError:  # a word that is no number: one by one
        frame = read(lines, dict.fromkeys(columns, "str"))
        for name in figures:
            value = _time if name == "time" else _number
            values = {text: value(str(text).strip()) for text in frame[name].unique()}
            frame[name] = frame[name].map(values).astype("float64")
    frame["device"] = frame["device"] if "device" in known else CPU
    needed = ["time", *([] if "memory_used_mib" in known else ["utilisation_percent"])]
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
    return pd.DataFrame(rows, columns=["time", "device", "utilisation_percent", "memory_used_mib"])


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
