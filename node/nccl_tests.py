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

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_WAY = rf"\s+{_NUMBER}\s+{_NUMBER}\s+({_NUMBER})\s+({_NUMBER}(?:e[+-]\d\d)?|N/A)"
_ROW = re.compile(
    r"(?:^|[\s:>])(\d{1,16})\s+\d{1,16}\s+[a-z]\w{1,15}\s+[a-z]\w{1,15}(?:\s+-?\d{1,7})?"
    + _WAY
    + _WAY
    + r"\s*$"
)
LONGEST = 500  # characters of a line


def row(line: str) -> dict[str, Any] | None:
    """Return a line's bytes, both bus bandwidths in GB/s, and the wrong elements of both ways."""
    match = _ROW.search(line) if len(line) <= LONGEST else None
    if not match:
        return None
    size, out_of_place, wrong_out, in_place, wrong_in = match.groups()
    wrong = sum(float(count) for count in (wrong_out, wrong_in) if count != "N/A")
    samples = [float(out_of_place), float(in_place)]
    return {"bytes": int(size), "samples": samples, "wrong": int(wrong)}
