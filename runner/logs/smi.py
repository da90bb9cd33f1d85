"""Devices by their tools: nvidia-smi's CSV and npu-smi's table, wherever they are in a log.

Every process of a node may print its own CSV (LiBai's patch in document 000: 8 headers and 64 rows
a node, torn into each other), so a row counts only when it is whole under a header that was seen:
the order of columns differs (`memory.used` is last in one and next to last in another). A header
or a table is known by what it calls memory, with a `[%]` or `(%)` on its line.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from runner.logs.decoding import line_end, line_start
from runner.logs.numbers import quantity

_HEADER_MARK = b"memory.used [MiB]"
_NPU_MARK = b"Memory-Usage(MB)"
_COLUMN = re.compile(rb"([a-z_.]+)(?: \[([^][\r\n]+)\])?(, ?)?")
_VALUE = {b"%": re.compile(rb"(\d{1,3}) %"), b"MiB": re.compile(rb"(\d{1,7}) MiB")}
# The number at the end of a cell that has other words before it.
_LAST = {unit: re.compile(rb"^(?:.*[^\d.+-])?" + value.pattern) for unit, value in _VALUE.items()}
_ABSENT = re.compile(rb"\[?(?:N/A|Not Supported|Unknown Error|Insufficient Permissions)\]?")
LONGEST_HEADER = 1 << 14  # bytes of a line with headers: eight processes', torn into each other
MOST_LINES = 1_000  # with headers, each different, that are looked at; a real log has some
MOST_HEADERS = 16  # kinds of headers in one log; a real one has one or two
_NPU_ROW = re.compile(
    rb"\| \d{1,9} +(?:\d{1,9} +)?\| [0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+ +\| (\d{1,3}) +"
    rb"(\d{1,9} */ *\d{1,9}(?: +\d{1,9} */ *\d{1,9})*) *\|"
)
_NPU_PAIR = re.compile(rb"(\d{1,9}) */ *\d")


@dataclass
class Devices:
    """What of a log's tools is known: headers of CSV that were seen, or a table of npu-smi."""

    _headers: list[list[bytes]] = field(default_factory=list)
    _npu: bool = False
    _lines: set[bytes] = field(default_factory=set)  # with headers, that were looked at

    def highest(self, text: bytes) -> tuple[float | None, float | None]:
        """Return of whole lines of a log the fullest device (MiB) and the busiest (percent)."""
        for line in _header_lines(text):
            self._learn(line)
        readings: list[tuple[float | None, float | None]] = []
        if self._headers:
            readings.append(_highest(text, tuple(map(tuple, self._headers))))
        if self._npu:
            readings += npu_readings(text)
        return _most(used for used, _ in readings), _most(busy for _, busy in readings)

    def _learn(self, line: bytes) -> None:
        if line in self._lines or len(self._lines) >= MOST_LINES:
            return
        if not (b"[%]" in line or b"(%)" in line or _HEADER_MARK in line):
            return
        self._lines.add(line)
        self._npu = self._npu or _NPU_MARK in line
        for columns in _headers(line) if _HEADER_MARK in line else ():
            new_header = _HEADER_MARK in columns and len(self._headers) < MOST_HEADERS
            if new_header and columns not in self._headers:
                self._headers.append(columns)


@lru_cache(maxsize=2)  # each kind of log line looks at the same text
def _header_lines(text: bytes) -> tuple[bytes, ...]:
    """Return the different lines of a text that have a mark of a header, at most MOST_LINES."""
    lines = dict[bytes, None]()
    for mark in (_HEADER_MARK, _NPU_MARK):
        at, end = text.find(mark), 0
        while at >= 0 and len(lines) < MOST_LINES:
            begin, end = line_start(text, at, end), line_end(text, at)
            lines[text[begin : min(end, begin + LONGEST_HEADER)]] = None
            at = text.find(mark, end)
    return tuple(lines)


@lru_cache(maxsize=2)
def _highest(
    text: bytes, headers: tuple[tuple[bytes, ...], ...]
) -> tuple[float | None, float | None]:
    """Return the most memory in use (MiB) and the busiest reading (percent) of a text's rows."""
    readings = []
    at, end = text.find(b" MiB"), 0
    while at >= 0:
        begin, end = line_start(text, at, end), line_end(text, at)
        if end < len(text) and (reading := _reading(text[begin:end], headers)):
            readings.append(reading)
        at = text.find(b" MiB", end)
    return _most(used for used, _ in readings), _most(busy for _, busy in readings)


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _reading(
    line: bytes, headers: tuple[tuple[bytes, ...], ...]
) -> tuple[float, float | None] | None:
    width = line.count(b",") + 1
    for columns in headers:
        if len(columns) != width:
            continue
        values = [value.strip() for value in line.split(b",")]
        readings: dict[bytes, float] = {}
        for column, value in zip(columns, values, strict=True):
            unit = column.rpartition(b"[")[2].rstrip(b"]")
            if unit not in _VALUE:
                continue
            # The first column may follow a launcher's prefix.
            if column != _HEADER_MARK and _ABSENT.fullmatch(value):
                continue  # such as MIG parts, which have no utilisation of their own
            pattern = (_LAST if column is columns[0] and width > 1 else _VALUE)[unit]
            match = pattern.fullmatch(value)
            reading = quantity(match[1]) if match else None
            if reading is None:
                break
            readings[column] = reading
        else:
            return readings[b"memory.used [MiB]"], readings.get(b"utilization.gpu [%]")
    return None


def npu_readings(text: bytes) -> Iterator[tuple[float, float]]:
    """Yield (MiB used, percent busy) of npu-smi's rows of chips."""
    for match in _NPU_ROW.finditer(text):
        used, busy = quantity(_NPU_PAIR.findall(match[2])[-1]), quantity(match[1])
        if used is not None and busy is not None:
            yield used, busy  # HBM is last where there is one


def _headers(line: bytes) -> Iterator[list[bytes]]:
    """Yield the headers on a line, whole, and up to the last column whose unit is read: behind that
    one another header may begin.
    """
    matches = list(_COLUMN.finditer(line))
    joined = [
        bool(current[3]) and current.end() == following.start()
        for current, following in pairwise(matches)
    ]
    columns: list[bytes] = []
    complete = 0
    for match, goes_on in zip(matches, [*joined, False], strict=True):
        columns.append(match[1] + (b" [%b]" % match[2] if match[2] else b""))
        complete = len(columns) if match[2] in _VALUE else complete
        if not goes_on:
            yield columns[:complete]
            if complete < len(columns):
                yield columns
            columns, complete = [], 0
