"""A node's samples as columns: a row for each look at a device, in the order of its file. Pure.

A day of eight GPUs is 700,000 rows, and a campaign has thousands of nodes: numpy and pandas read
and add up a row in about a microsecond. What is not in the sampler's form is read row by row.
"""

import functools
import io
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import re2
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CPU = "cpu"  # the one device of a node without devices: all its processors
UNTOLD = -1  # as clock events: the device does not say
MOST_EVENTS = (1 << 63) - 1
# A column of the sampler's, and how its figures look, by node/sampler.py and node/nvml.py.
_FORMS = {
    "timestamp": r"\d{1,10}\.\d{3}",
    "index": r"\d{1,4}",
    "utilization.gpu": r"\d{1,9} %",
    "utilization.cpu": r"\d{1,9} %",
    "memory.used": r"\d{1,9} MiB",
    "memory.total": r"\d{1,9} MiB",
    "power.draw": r"\d{1,9}\.\d{2} W",
    "clocks.current.sm": r"\d{1,9} MHz",
    "temperature.gpu": r"\d{1,9}",
    "total_energy": r"\d{1,15} mJ",
    "clocks_event_reasons.active": r"0x[0-9a-f]{16}",
}
_UNITS = b" %MiBWHzmJ"  # letters of units, which no figure has
_ABSENT = "[N/A]"
_HEADER = re.compile(r"([a-z_.]+)(?: \[[^][]+\])?")


@dataclass(frozen=True)
class Sample:
    """One look at one device at a node's time in s; None: not told.

    `energy_j` counts from some time before the run; `clock_events` are NVML's bits.
    """

    time: float
    device: str
    utilisation_percent: float | None
    memory_used_mib: float | None
    power_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    clock_events: int | None = None


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
Samples = Sequence[Sample] | SampleTable


def finite_values(values: Floats) -> Floats:
    """Return the figures of a column that were told."""
    return values[~np.isnan(values)]


def tabled(samples: Samples) -> SampleTable:
    """Return samples as columns."""
    if isinstance(samples, SampleTable):
        return samples
    names = tuple(dict.fromkeys(sample.device for sample in samples))
    codes = {name: code for code, name in enumerate(names)}

    def column(name: str) -> Floats:
        values = (getattr(sample, name) for sample in samples)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    events = (sample.clock_events for sample in samples)
    return SampleTable(
        names,
        np.array([codes[sample.device] for sample in samples], dtype=np.intp),
        column("time"),
        column("utilisation_percent"),
        column("memory_used_mib"),
        column("power_w"),
        column("energy_j"),
        column("temperature_c"),
        column("sm_clock_mhz"),
        np.array(
            [UNTOLD if event is None else event & MOST_EVENTS for event in events], dtype=np.int64
        ),
    )


def read_table(data: bytes, read_rows: Callable[[bytes], Sequence[Sample]]) -> SampleTable:
    """Read a node's samples.csv; `read_rows` reads what is not in the sampler's own form."""
    header, _, body = data.partition(b"\n")
    matches = [
        _HEADER.fullmatch(word.strip()) for word in header.decode("ascii", "replace").split(",")
    ]
    columns = tuple(match[1] if match else "" for match in matches)
    form = _form(columns)
    if form is None or not body or form.fullmatch(body) is None:
        return tabled(read_rows(data))
    return _read(columns, body)


@functools.lru_cache(maxsize=16)
def _form(columns: tuple[str, ...]) -> "re2._Regexp[bytes] | None":
    """Return what all rows of a file with these columns look like; None: nobody knows them."""
    needed = {"utilization.gpu", "utilization.cpu", "memory.used"}
    if columns[0] != "timestamp" or not needed & {*columns} or not {*columns} <= {*_FORMS}:
        return None
    if len({*columns}) < len(columns):
        return None
    absent = re.escape(_ABSENT)
    fields = [
        _FORMS[name] if name in ("timestamp", "index") else f"(?:{_FORMS[name]}|{absent})"
        for name in columns
    ]
    return re2.compile(f"(?:{', '.join(fields)}\n)+".encode())


def _read(columns: tuple[str, ...], body: bytes) -> SampleTable:
    import pandas as pd

    events = "clocks_event_reasons.active"
    kinds = dict.fromkeys(columns, "float64") | {"index": "category", events: "category"}
    frame = pd.read_csv(
        io.BytesIO(body.translate(None, _UNITS)),
        header=None,
        names=list(columns),
        usecols=[name for name in columns if name != "memory.total"],
        dtype={name: kinds[name] for name in columns},
        na_values=[_ABSENT],
        keep_default_na=False,
        engine="c",
    )
    rows = len(frame)
    absent = np.full(rows, np.nan)

    def column(*names: str) -> Floats:
        """Return the first of these columns that is there."""
        name = next((name for name in names if name in columns), "")
        return np.asarray(frame[name], dtype=np.float64) if name else absent

    names: tuple[str, ...] = (CPU,)
    device = np.zeros(rows, dtype=np.intp)
    if "index" in columns:
        names = tuple(str(name) for name in frame["index"].cat.categories)
        device = np.asarray(frame["index"].cat.codes, dtype=np.intp)
    bits = np.full(rows, UNTOLD, dtype=np.int64)
    if events in columns:
        values = [int(word, 16) & MOST_EVENTS for word in frame[events].cat.categories]
        bits = np.array([*values, UNTOLD], dtype=np.int64)[np.asarray(frame[events].cat.codes)]
    return SampleTable(
        names,
        device,
        column("timestamp"),
        column("utilization.gpu", "utilization.cpu"),
        column("memory.used"),
        column("power.draw"),
        column("total_energy") / 1000,
        column("temperature.gpu"),
        column("clocks.current.sm"),
        bits,
    )
