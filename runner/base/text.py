"""A log as byte blocks, and its last lines; a list of names, and a time, in a few words."""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from node.files import open_plain

BLOCK_BYTES = 1 << 20
LINE = 1 << 12  # bytes before a block's end in which it ends at a line's end, where there is one


@cache
def keep_memory() -> None:
    """Let what large blocks leave be used again: glibc gives back to the system, page by page, what
    is larger than anything that was freed before (mallopt(3), M_MMAP_THRESHOLD).
    """
    bytes(1 << 24)


def blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes in blocks of at most `size`; nothing where there is no file.

    They end with a line where they can, so that nobody needs to copy them to join one.
    """
    keep_memory()
    try:
        with open_plain(path) as stream:
            file, begin = stream.fileno(), 0
            while (left := os.fstat(file).st_size - begin) > 0:
                most = min(left, size)
                near = min(most, LINE)
                end = os.pread(file, near, begin + most - near) if left > size else b""
                block = os.pread(file, most - len(end) + (end.rfind(b"\n") + 1 or len(end)), begin)
                if not block:  # cut meanwhile
                    return
                yield block
                begin += len(block)
    except FileNotFoundError:
        return


def tail(path: Path, size: int = 1 << 16) -> bytes:
    """Return the last bytes of a file, from the start of a line; empty where there is no file."""
    try:
        with open_plain(path) as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            data = stream.read()
    except FileNotFoundError:
        return b""
    return data if end <= size else data[data.find(b"\n") + 1 :]


def some(names: Sequence[str], most: int = 3) -> str:
    """Write `a, b, c and 5 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(count: int, thing: str) -> str:
    """Write `1 cell`, `2 cells`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def lasts(seconds: float) -> str:
    """Write `45 s`, `12 min` from two minutes on, `3.5 h` from two hours on."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
