"""Logs of nccl-tests and rccl-tests: collectives by size, not steps of a training. Pure.

A log may hold several tests, one behind the other (`# Collective test starting:`, since 2025; else
`# nThread` begins one). The lines themselves are node/nccl_tests.py's, which nodes read, too.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from node import nccl_tests
from node.printable import printable
from runner.logs.numbers import quantity, whole_number

_STARTS = re.compile(r"# Collective test starting: (\S{1,80})")
_SETTINGS = re.compile(r"# nThread \d+ nGpus \d+ minBytes \d+ ")
_VERSION = re.compile(r"# nccl-tests version (\S{1,40}) nccl-headers=\d+ nccl-library=(\d{1,9})")
_LIBRARY = re.compile(r"[NR]CCL version\s*:? (\d[\w.+-]{0,40})")
_DEVICE = re.compile(
    r"# +Rank +\d{1,7} +(?:Group +\d+ +)?Pid +\d+ on +(\S{1,255}) device +\d+"
    r" \[[^]]{1,20}\] (.{1,80})"
)
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*: ([\d.]{1,20})")
_WRONG = re.compile(r"# Out of bounds values\s*: (\d{1,15})")
MOST_ROWS = 10_000


@dataclass
class CollectiveTest:
    """One run of one program: `operation` as it names itself ("" where it does not).

    `rows` have bytes, type, redop, and out_of_place and in_place: time_us, algorithm_gb_per_s,
    bus_gb_per_s (doc/PERFORMANCE.md of nccl-tests), wrong (elements; None: not checked).
    """

    operation: str = ""
    version: str = ""
    library: str = ""
    ranks: int = 0
    hosts: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    average_bus_gb_per_s: float | None = None
    wrong: int | None = None


def collective_tests(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the tests in the lines of a log, as JSON has them; those without any row left out."""
    return [asdict(test) for test in _tests(lines) if test.rows]


def _tests(lines: Iterable[str]) -> Iterator[CollectiveTest]:
    test, version = CollectiveTest(), ""
    for line in lines:
        if "#" not in line and not line.rstrip()[-1:].isalnum():
            continue
        if match := _VERSION.search(line):
            version = match[1]
        elif (match := _STARTS.search(line)) or (_SETTINGS.search(line) and test.rows):
            yield test
            name = printable(match[1]) if match else ""
            test = CollectiveTest(operation=name.removesuffix("_perf"), version=version)
        elif match := _DEVICE.search(line):
            test.ranks += 1
            for names, name in ((test.hosts, match[1]), (test.devices, match[2].strip())):
                if printable(name) not in names:
                    names.append(printable(name))
        elif match := _AVERAGE.search(line):
            test.average_bus_gb_per_s = quantity(match[1])
        elif match := _WRONG.search(line):
            test.wrong = whole_number(match[1]) or 0
        elif (row := nccl_tests.row(line)) and len(test.rows) < MOST_ROWS:
            test.rows.append(row)
        elif match := _LIBRARY.search(line):
            test.library = test.library or match[1]
    yield test
