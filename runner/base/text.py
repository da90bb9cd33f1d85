"""A log as byte blocks, and its last lines; a list of names in a few words."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.base.log_file import BLOCK_BYTES, open_log


def blocks(path: Path, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file's bytes in blocks of at most `size`; nothing where there is no file."""
    try:
        with open_log(path) as stream:
            while block := stream.read(size):
                yield block
    except FileNotFoundError:
        return


def tail(path: Path, size: int = 1 << 16) -> bytes:
    """Return the last bytes of a file, from the start of a line; empty where there is no file."""
    try:
        with open_log(path) as stream:
            end = stream.seek(0, 2)
            stream.seek(max(0, end - size))
            data = stream.read()
    except FileNotFoundError:
        return b""
    return data if end <= size else data[data.find(b"\n") + 1 :]


def listing(names: Sequence[str], most: int = 3, between: str = ", ") -> str:
    """Write `a, b, c and 5 more`; of parts of sentences, `a; b; c; and 5 more`."""
    stop = between.strip(" ,")
    more = f"{stop} and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def counted(count: int, noun: str) -> str:
    """Write `1 cell`, `2 cells`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
