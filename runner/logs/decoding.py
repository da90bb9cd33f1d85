"""Whole lines from byte blocks, and numbers from bytes."""

import math
import re
from collections.abc import Iterable, Iterator

LONGEST_LINE = 1 << 16  # bytes; what is longer is no line of a trainer, and is cut

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
# What launchers put before a line: `[default7]:`, `[rank3]: `, `host: `, `0: `, `stdout: `,
# mpirun's `[1,3]<stderr>:`, the time of `kubectl logs --timestamps`.
PREFIX = re.compile(
    rb"^(?:\s*\[(?:default|rank|worker-?)?\d+\]\s?:\s?"
    rb"|(?:stdout|stderr): ?"
    rb"| *\d+: (?=\S)"
    rb"|\[\d+,\d+\]<std(?:out|err)>: ?"
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d) "
    rb"|(?:\d{1,3}(?:\.\d{1,3}){3}|localhost"
    rb"|(?!E[A-Z]\d{4}:|python[\d.]*:)[A-Za-z][\w.-]*\d[\w.-]*): "
    rb"|\([^()\s]+,? pid=\d+[^)]*\) ?"
    rb"|[\w.-]+[ ]+\| )"
)


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes, cut behind a line's end, so that no line is split over two blocks.

    A carriage return ends a line, too. The last piece may lack its line's end: then it may be
    half a line, and parsers take from it only what another character closes.
    """
    rest = b""
    for block in blocks:
        cut = block.rfind(b"\n") + 1 or block.rfind(b"\r") + 1
        if not cut:
            rest += block
            if len(rest) > LONGEST_LINE:
                yield rest
                rest = b""
            continue
        yield b"".join((rest, memoryview(block)[:cut]))
        rest = block[cut:]
    if rest:
        yield rest


def places(text: bytes, mark: bytes) -> Iterator[int]:
    """Yield where a mark stands, each time."""
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


def line_end(text: bytes, at: int) -> int:
    """Return where the line around `at` ends: its newline or carriage return, else the
    text's end.
    """
    end = text.find(b"\n", at)
    end = len(text) if end < 0 else end
    cut = text.find(b"\r", at, end)
    return end if cut < 0 else cut


def number(text: bytes | None) -> float | None:
    """Read a finite number, or None."""
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def clean(line: bytes) -> str:
    """Clean one line for people: colours, launchers' prefixes and invalid UTF-8 taken out."""
    line = ANSI.sub(b"", line).rstrip(b"\r\n")
    for _ in range(3):
        shorter = PREFIX.sub(b"", line, count=1)
        if shorter == line:
            break
        line = shorter
    return line.decode("utf-8", "replace").strip()
