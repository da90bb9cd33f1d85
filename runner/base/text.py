"""A log as byte blocks, its last lines, and text that is safe to show."""

import re
from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20

# CSI sequences (colours, cursor) and OSC ones (window title, clipboard), in 7 and 8 bits.
_ESCAPE = re.compile(
    "(?:\x1b\\[|\x9b)[0-9;?]*[ -/]*[@-~]|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
)


def blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes in blocks (1 MiB by default); nothing where there is no file."""
    try:
        with path.open("rb") as stream:
            while block := stream.read(size):
                yield block
    except FileNotFoundError:
        return


def tail(path: Path, size: int = 1 << 16) -> bytes:
    """Return the last bytes of a file, from the start of a line; empty where there is no file."""
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            data = stream.read()
    except FileNotFoundError:
        return b""
    return data if end <= size else data[data.find(b"\n") + 1 :]


def printable(text: str) -> str:
    """Make text safe for a terminal: escapes and control characters left out, one line."""
    plain = _ESCAPE.sub("", text)
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())
