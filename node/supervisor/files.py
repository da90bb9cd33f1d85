"""The files of a run's folder: written whole, read if they are there."""

from __future__ import annotations

import os

from node.files import read_json, write_text

__all__ = ["part", "read_json", "size_of", "stamp_of", "write"]


def write(path: str, text: str) -> None:
    """Write a file for its owner alone, so that a reader sees all of it or none of it."""
    write_text(path, text, mode=0o600)


def size_of(path: str) -> int:
    """A file's size in bytes; 0 before it exists."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def stamp_of(path: str) -> int | None:
    """A file's mtime in ns, or None; only ever compared with itself."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def part(path: str, offset: int, length: int) -> bytes:
    """Bytes of a file that is not a link; empty where it is missing."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except OSError:
        return b""
