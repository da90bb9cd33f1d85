"""What nccl-tests and rccl-tests print: a line for each size of a collective. Pure.

    #    size       count   type  redop   root     time  algbw  busbw #wrong     time  algbw ..
    #     (B)  (elements)                          (us) (GB/s) (GB/s)            (us) (GB/s) ..
     67108864    16777216  float    sum     -1  2801.78  23.95  44.91      0  2804.72  23.93 ..

Out of place, then in place. Until 2021 no line has a root, and `error` stands for `#wrong`
(src/common.cu of nccl-tests). Launchers may put words before a line (`[1,0]<stdout>:`, `0: `).
"""

from __future__ import annotations

import re
from typing import Any

_TIMES = r"\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.e+-]+|N/A)"
_ROW = re.compile(
    r"(?:^|[\s:>])(\d{1,16})\s+(\d{1,16})\s+([a-z]\w{1,15})\s+([a-z]\w{1,15})(?:\s+(-?\d{1,7}))?"
    + _TIMES
    + _TIMES
    + r"\s*$"
)
LONGEST = 500  # characters of a line


def row(line: str) -> dict[str, Any] | None:
    """Return what a line says: bytes, type, redop, and both ways `time_us`, GB/s and wrong ones."""
    match = _ROW.search(line) if len(line) <= LONGEST else None
    if not match:
        return None
    try:
        ways = [_way(match.groups()[column : column + 4]) for column in (5, 9)]
    except ValueError:  # 1.2.3
        return None
    size, kind, redop = int(match[1]), match[3], match[4]
    both = {"out_of_place": ways[0], "in_place": ways[1]}
    return {"bytes": size, "type": kind, "redop": redop, **both}


def _way(columns: Any) -> dict[str, Any]:
    time_us, algorithm, bus, wrong = columns
    count = None if wrong == "N/A" else float(wrong)
    return {
        "time_us": float(time_us),
        "algorithm_gb_per_s": float(algorithm),
        "bus_gb_per_s": float(bus),
        "wrong": count,
    }
