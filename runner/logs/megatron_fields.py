"""The fields of Megatron's line and of those who wrap it: what each is called, read one by one."""

import re
from collections.abc import Mapping

import numpy as np

from runner.logs.batch import Floats
from runner.logs.layouts import COLUMN, Field
from runner.logs.numbers import number, whole

FIELD = re.compile(rb"\|([^|:]+): *([^\s|]+) (?:samples/s )?(?=\|)")
# What a label means here. `tpt` is a field that Oneflow patches in (OneAutoTest).
ROLES: Mapping[bytes, str] = {
    b"elapsed time per iteration (ms)": "time_ms",
    b"elapsed time per iteration (s)": "time_s",
    b"samples per second": "rate",
    b"tpt": "rate",
    b"global batch size": "batch",
    b"lm loss": "loss",
    b"lm-loss": "loss",
    b"loss": "loss",
    b"loss scale": "scale",
    b"grad norm": "norm",
    b"number of skipped iterations": "skipped",
    b"number of nan iterations": "nan",
    b"tokens per GPU (tokens/s/GPU)": "device_tokens",
    b"tokens/s/GPU inst/harmonic mean": "device_tokens",
    b"memory usage/free/total": "window",
}
_WHOLE = ("batch", "skipped", "nan")
_POSITION = ("loss", "norm")
ROUNDED_S = 0.00501  # a time with two places of seconds is as near as this,
SHORT_S = 0.0201  # and up to this it says too little


class Columns:
    """One block's steps while they are read: NaN, 0 and empty spans until something is found."""

    def __init__(self, count: int) -> None:
        floats = ("time_ms", "time_s", "rate", "device_tokens")
        self.floats = {name: np.full(count, np.nan) for name in floats}
        self.windows = np.zeros(count, np.bool_)  # where a time is all of its window's
        self.ints = {name: np.full(count, -1, np.int64) for name in _WHOLE}
        self.spans = {
            name: (np.zeros(count, np.int64), np.zeros(count, np.int64)) for name in _POSITION
        }
        self.unread = 0  # times and rates that are there and no number

    def put(self, row: int, name: str, value: bytes, at: int) -> None:
        """Put one value of one line, by the slow reader."""
        if name in self.spans:
            start, end = self.spans[name]
            start[row], end[row] = at, at + len(value)
        elif name in self.ints:
            count = whole(value)
            self.ints[name][row] = -1 if count is None else count
        elif name == "window":
            self.windows[row] = True
        elif name in self.floats:
            first, slash, average = value.partition(b"/")
            figure = number(first) if not slash or number(average) is not None else None
            self.floats[name][row] = np.nan if figure is None else figure
            self.unread += figure is None


def seconds_of(columns: Columns) -> Floats:
    """Read the time, of which a line has two places; of a very short one its rate says more.

    bigscience e52bdab megatron/training.py:793-795: samples per second is batch size / that time.
    """
    rough, rate = columns.floats["time_s"], columns.floats["rate"]
    exact = np.divide(columns.ints["batch"], rate, out=rough.copy(), where=rate > 0)
    return np.where((rough < SHORT_S) & (np.abs(exact - rough) <= ROUNDED_S), exact, rough)


def field_of(name: str, index: int, label: bytes, value: bytes, after: bytes) -> Field | None:
    """Return how the number of a field is written, where it is written as arrays can read it."""
    if after != b" " or name == "scale" or len(label) < 8:
        return None
    if name in _WHOLE:
        bare = label.rstrip(b" ")
        width = len(label) - len(bare) + len(value)
        return Field(name, index, bare, -1, width) if value.isdigit() and width <= COLUMN else None
    if label.count(b" ") and not label.endswith(b": "):
        return None
    if name in _POSITION:
        return Field(name, index, label, None) if number(value) is not None else None
    digits, dot, places = value.partition(b".")
    if not (dot and digits.isdigit() and places.isdigit() and not re.search(rb"\d", label)):
        return None
    return Field(name, index, label, len(places))
