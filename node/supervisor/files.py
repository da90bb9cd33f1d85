"""The files of a run's folder: written whole, read if they are there."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any


def write(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file so that a reader sees all of it or none of it."""
    fresh = "%s.tmp%d" % (path, os.getpid())
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(fresh, path)


def read_json(path: str) -> Any:
    """The file's JSON, or None where there is no such (whole) file."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def key_value(path: str, separator: str) -> dict[str, str]:
    """The first value of each key of a `key<separator>value` file; {} if it cannot be read."""
    found: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                key, _, value = line.partition(separator)
                found.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return found


def size_of(path: str) -> int:
    """A file's size in bytes; 0 where there is none yet."""
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
    """Bytes of a file that is no link; none where there is no such file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except OSError:
        return b""
