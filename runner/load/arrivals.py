"""When a log had how many bytes, by the file that its node wrote beside it (node/arrivals.py).

The file comes from a node or an archive: where it says what cannot be, there are no arrivals, with
a reason.
"""

import re
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from node.arrivals import MOST_BYTES
from runner.folder import names
from runner.folder.packed import read_part

_BEGAN = re.compile(rb"began (\d{1,10}\.\d{3}) within_ms (\d{1,4})\n")
_ENTRY = re.compile(rb"(\d{1,12}\.\d) (\d{1,15})(?: (\d{1,5}))?\n")
SPARE_BYTES = 1 << 20  # beyond its bound: what is noted between two looks at that


class Arrival(NamedTuple):
    """By when a log had `size` bytes: s by the file's clock, late by `error_s` at most."""

    at_s: float
    size: int
    error_s: float


class Arrivals(NamedTuple):
    """The arrivals of a log, in order; none with the reason in `missing`.

    `began` is when their clock did, by the node's own (epoch seconds).
    """

    began: float = 0.0
    entries: tuple[Arrival, ...] = ()
    missing: str = "its node noted no arrivals"


def arrivals_of(node: Path) -> Arrivals:
    """Read those of the log in a node's folder; a last entry that was torn is left out."""
    try:
        text = read_part(node, names.ARRIVALS)
        log_bytes = (node / names.LOG).stat().st_size
    except OSError as error:
        return Arrivals(missing=f"its arrivals cannot be read: {error.strerror}")
    return read_arrivals(text, log_bytes) if text else Arrivals()


def read_arrivals(text: bytes, log_bytes: int) -> Arrivals:
    """Read the arrivals of a log of so many bytes."""
    if len(text) > MOST_BYTES + SPARE_BYTES:
        return Arrivals(missing="its arrivals are more than a node writes")
    text = text[: text.rfind(b"\n") + 1]
    head = _BEGAN.match(text)
    if head is None:
        return Arrivals(missing="its arrivals do not begin as a node writes them")
    within_s = int(head[2]) / 1000
    entries, end, before = [], head.end(), Arrival(0.0, 0, within_s)
    while match := _ENTRY.match(text, end):
        error_s = int(match[3]) / 1000 if match[3] else within_s
        entry, end = Arrival(float(match[1]) / 1000, int(match[2]), error_s), match.end()
        if entry.at_s < before.at_s or not before.size < entry.size <= log_bytes:
            return Arrivals(missing="its arrivals go back, or beyond the log's end")
        entries.append(entry)
        before = entry
    if end < len(text):
        return Arrivals(missing="its arrivals have a line that is no time and size")
    return Arrivals(float(head[1]), tuple(entries), "")


def moved(text: bytes, log: bytes, redacted: bytes) -> bytes:
    """Return the arrivals of a log for its redacted copy, whose lines have other lengths."""
    head, _, rest = text.partition(b"\n")
    ends, new_ends = _ends(log), _ends(redacted)
    lines = [head]
    for match in _ENTRY.finditer(rest):
        number = min(bisect_right(ends, int(match[2])), len(new_ends)) - 1
        beyond = int(match[2]) - ends[number]
        line_end = new_ends[number + 1] - 1 if number + 1 < len(new_ends) else len(redacted)
        size = min(new_ends[number] + beyond, line_end)
        lines.append(b" ".join([match[1], b"%d" % size, *([match[3]] if match[3] else [])]))
    return b"\n".join([*lines, b""])


def _ends(log: bytes) -> list[int]:
    return [0, *(line.end() for line in re.finditer(rb"\n", log))]
