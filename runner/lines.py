"""Lines of a log, from byte blocks, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
LONGEST_LINE = 1 << 16  # bytes; what is longer is no line of a trainer

# CSI sequences (colours, cursor) and OSC ones (window title, clipboard), in 7 and 8 bits.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-9;?]*[ -/]*[@-~]|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
)


def blocks(path: Path) -> Iterator[bytes]:
    """A file's bytes in blocks of 1 MiB; nothing where there is no file."""
    try:
        with path.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block
    except FileNotFoundError:
        return


def lines_with(parts: Iterable[bytes], marker: bytes) -> Iterator[str]:
    """The whole lines that hold `marker`, from the marker on, as text.

    Only those are decoded. A last line without its newline is left out: it may be half a line.
    """
    rest = b""
    for part in parts:
        chunk = rest + part
        cut = chunk.rfind(b"\n") + 1
        rest = chunk[cut:][-LONGEST_LINE:]
        at = chunk.find(marker, 0, cut)
        while at >= 0:
            end = chunk.find(b"\n", at, cut)
            yield chunk[at:end].decode("utf-8", "replace").rstrip("\r")
            at = chunk.find(marker, end, cut)


def tail(path: Path, size: int = 1 << 16) -> bytes:
    """The last bytes of a file, from the start of a line; empty where there is no file."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            data = stream.read()
    except FileNotFoundError:
        return b""
    return data if end <= size else data[data.find(b"\n") + 1 :]


def printable(text: str) -> str:
    """Text that does nothing to a terminal: escapes and control characters left out, one line."""
    plain = _ESCAPE.sub("", text)
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())
