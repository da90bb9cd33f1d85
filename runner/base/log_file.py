"""A log as a stream, whatever its file says of its size: holes skipped, bytes and time bounded.

A file of terabytes that takes no disk is read in the time that its data takes. Every reader of a
log comes through here, so that an interrupt and the limits end each of them.
"""

import errno
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any

from node.files import open_plain

BLOCK_BYTES = 1 << 20
MOST_READ = 64 << 30  # bytes of one log, without its holes
MOST_S = 3600.0  # to read one
MOST_PARTS = 10_000  # between holes

_stopped: list[Callable[[], bool]] = []


@contextmanager
def readers_end(when: Callable[[], bool]) -> Iterator[None]:
    """Have each reader raise KeyboardInterrupt once `when` is true, as long as the block lasts.

    For a command that takes Ctrl-C itself.
    """
    _stopped.append(when)
    try:
        yield
    finally:
        _stopped.remove(when)


def open_log(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a log to be read from any place; its holes do not count.

    Raises OSError: NotPlainError for anything but a plain file, and, also while it is read,
    where it is larger or takes longer than a log may.
    """
    with open_plain(path) as plain:
        parts = _data(plain.fileno(), os.fspath(path))
        return io.BufferedReader(_Data(os.dup(plain.fileno()), parts, path), BLOCK_BYTES)


def log_size(path: str | os.PathLike[str]) -> int:
    """Return a log's bytes without its holes. Raises OSError."""
    with open_log(path) as stream:
        return stream.seek(0, os.SEEK_END)


def _data(handle: int, path: str) -> list[tuple[int, int]]:
    """Return where a file has data: begins and ends. Raises OSError for more than a log has."""
    state = os.fstat(handle)
    parts, at = [], 0
    if state.st_blocks * 512 >= state.st_size:
        parts = [(0, state.st_size)] if state.st_size else []
    while not parts or at:
        try:
            begin = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                break
            parts, at = [(0, state.st_size)], 0  # its file system does not say
            break
        at = os.lseek(handle, begin, os.SEEK_HOLE)
        parts.append((begin, at))
        if len(parts) > MOST_PARTS:
            raise OSError(errno.EFBIG, f"it has more than {MOST_PARTS:,} holes; copy it", path)
    if sum(end - begin for begin, end in parts) > MOST_READ:
        raise _too_large(path)
    return parts


def _too_large(path: object) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {MOST_READ >> 30} GiB; cut it", str(path))


class _Data(io.RawIOBase):
    """The data of a file between its holes, as one stream."""

    def __init__(
        self, handle: int, parts: Sequence[tuple[int, int]], path: str | os.PathLike[str]
    ) -> None:
        self._handle = handle
        self._path = path
        self._parts = parts
        self._begins = [0]
        for begin, end in parts:
            self._begins.append(self._begins[-1] + end - begin)
        self._at = 0
        self._read = 0
        self._until = time.monotonic() + MOST_S

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._begins[-1]}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        if any(when() for when in _stopped):
            raise KeyboardInterrupt
        if time.monotonic() > self._until:
            why = f"reading it took longer than {MOST_S / 60:g} minutes; copy it to a faster disk"
            raise OSError(errno.ETIMEDOUT, why, str(self._path))
        for (begin, _), (part_begin, part_end) in zip(
            self._parts, pairwise(self._begins), strict=True
        ):
            if part_begin <= self._at < part_end:
                view = memoryview(buffer)[: part_end - self._at]
                count = os.preadv(self._handle, [view], begin + self._at - part_begin)
                self._at += count
                self._read += count
                if self._read > 2 * MOST_READ:  # back and forth
                    raise _too_large(self._path)
                return count
        return 0

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()
