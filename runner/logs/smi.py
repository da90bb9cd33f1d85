"""Devices by their tools: nvidia-smi's CSV and npu-smi's table, wherever they stand in a log.

Every process of a node may print its own CSV (LiBai's patch in document 000: 8 headers and 64 rows
a node, torn into each other), so a row counts only when it is whole under a header that was seen:
the order of columns differs (`memory.used` is last in one and next to last in another). A header
is known by its `[%]`, a table by its `(%)`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from runner.logs.decoding import line_end

_HEADER_MARK = b"memory.used [MiB]"
_HEADER = re.compile(rb"(?:[a-z_.]+(?: \[[^\]\r\n]+\])?, ?)*[a-z_.]+ \[(?:%|MiB)\]")
_VALUE = {b"%": re.compile(rb"(\d{1,3}) %"), b"MiB": re.compile(rb"(\d{1,7}) MiB")}
_NPU_MARK = b"Usage(MB)"
_NPU_ROW = re.compile(
    rb"\| \d+ +(?:\d+ +)?\| [0-9A-Fa-f]{4}:[0-9A-Fa-f:.]+ +\| (\d+) +((?:\d+ */ *\d+ *)+)\|"
)


@dataclass
class Devices:
    """The fullest device (MiB) and the busiest reading (percent) that the log shows."""

    memory_used_mib: float | None = None
    utilisation_percent: float | None = None
    _headers: list[list[bytes]] = field(default_factory=list)
    _npu: bool = False

    def scan(self, text: bytes) -> None:
        """Look through whole lines of a log."""
        at = text.find(b"%")  # one character: the fastest search there is
        while at >= 0:
            if text[at - 1 : at + 2] in (b"[%]", b"(%)"):
                end = line_end(text, at)
                self._learn(text[text.rfind(b"\n", 0, at) + 1 : end])
                at = end
            at = text.find(b"%", at + 1)
        if self._headers:
            self._rows(text)
        if self._npu:
            for used, busy in npu_readings(text):
                self.see(used, busy)

    def _learn(self, line: bytes) -> None:
        self._npu = self._npu or _NPU_MARK in line
        for match in _HEADER.finditer(line):
            if _HEADER_MARK in match[0]:
                columns = [name.strip() for name in match[0].split(b",")]
                if columns not in self._headers:
                    self._headers.append(columns)

    def _rows(self, text: bytes) -> None:
        at = text.find(b" MiB")
        while at >= 0:
            begin = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
            end = line_end(text, at)
            if end < len(text):
                self._row(text[begin:end])
            at = text.find(b" MiB", end)

    def _row(self, line: bytes) -> None:
        values = [value.strip() for value in line.split(b",")]
        for columns in self._headers:
            if len(columns) != len(values):
                continue
            readings: dict[bytes, float] = {}
            for column, value in zip(columns, values, strict=True):
                unit = _VALUE.get(column.rpartition(b"[")[2].rstrip(b"]"))
                if unit is None:
                    continue
                # The first column may follow a launcher's prefix.
                match = _last(unit, value) if column is columns[0] else unit.fullmatch(value)
                if match is None:
                    break
                readings[column] = float(match[1])
            else:
                self.see(readings[b"memory.used [MiB]"], readings.get(b"utilization.gpu [%]"))
                return

    def see(self, used_mib: float, busy_percent: float | None) -> None:
        """Note one reading of one device."""
        self.memory_used_mib = max(self.memory_used_mib or 0.0, used_mib)
        if busy_percent is not None:
            self.utilisation_percent = max(self.utilisation_percent or 0.0, busy_percent)


def npu_readings(text: bytes) -> Iterator[tuple[float, float]]:
    """Yield (MiB used, percent busy) of npu-smi's rows of chips."""
    for match in _NPU_ROW.finditer(text):
        pairs = re.findall(rb"(\d+) */ *(\d+)", match[2])
        yield float(pairs[-1][0]), float(match[1])  # HBM is last where there is one


def _last(unit: re.Pattern[bytes], value: bytes) -> re.Match[bytes] | None:
    """Return the number at the end of a cell that has other words before it."""
    return re.compile(rb"(?:.*\D)?" + unit.pattern).fullmatch(value)
