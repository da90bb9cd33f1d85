"""Files: read if they are there, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat

TYPE_CHECKING = False  # as typing's, whose import would cost each poll of a run
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any


class NotPlainError(OSError):
    """A device, a pipe or a socket, which may have no end, or a link."""


# What another user left there is never followed, emptied or waited for.
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


def open_plain(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a plain file to be read. Raises OSError, NotPlainError for a link or other file."""
    try:
        return _plain(path, os.open(path, READ), "rb")
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a socket
            raise NotPlainError(errno.EINVAL, _kind_fault(path), str(path)) from None
        raise


def _plain(path: str | os.PathLike[str], handle: int, mode: str) -> IO[bytes]:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return open(handle, mode)
    os.close(handle)
    raise NotPlainError(errno.EINVAL, _kind_fault(path), str(path))


def _kind_fault(path: str | os.PathLike[str]) -> str:
    return "it is a link, not a plain file" if os.path.islink(path) else "it is not a plain file"


def read_start(path: str | os.PathLike[str], most: int) -> bytes | None:
    """Return the first bytes of a plain file; None for another kind. Raises OSError."""
    try:
        with open_plain(path) as stream:
            # No more than there is: a buffer of `most` bytes costs a thousand times a small file.
            return stream.read(min(most, os.fstat(stream.fileno()).st_size + 1))
    except NotPlainError:
        return None


def holds(path: str, content: bytes) -> bool:
    """Return whether a plain file has just this content."""
    try:
        with open_plain(path) as stream:
            return stream.read(len(content) + 1) == content
    except OSError:
        return False


def read_text(path: str) -> str:
    """Return a file's text; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def read_json(path: str) -> Any:
    """Return a file's JSON; None where there is no such (whole) file."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None


def write_text(path: str, text: str, mode: int = 0o666, survives_power_loss: bool = False) -> None:
    """Write a text as `write_bytes` does."""
    write_bytes(path, text.encode(), mode, survives_power_loss)


def write_bytes(
    path: str, content: bytes, mode: int = 0o666, survives_power_loss: bool = False
) -> None:
    """Write a file so that a reader sees all of it or none of it; `mode` is less the umask.

    `survives_power_loss`: it is to survive a node that loses its power right afterwards.
    """
    with new_file(path, mode) as stream:
        stream.write(content)
        if survives_power_loss:
            stream.flush()
            os.fsync(stream.fileno())


@contextlib.contextmanager
def new_file(path: str, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a file to write, which takes the place of `path` once it is whole; else it goes."""
    fresh = "%s.new%d" % (path, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)  # of a process that was killed, or a link
    try:
        with os.fdopen(os.open(fresh, NEW, mode), "wb") as stream:
            yield stream
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def open_to_append(path: str | os.PathLike[str], mode: int = 0o600) -> IO[bytes]:
    """Open a plain file to be appended to and read, created if missing.

    Raises OSError, NotPlainError for a link or anything that is not a plain file.
    """
    return _plain(path, os.open(path, APPEND, mode), "a+b")


def create_once(path: str | os.PathLike[str], text: str) -> bool:
    """Create the file with `text` unless it is there; whether this call did.

    It appears whole where the file system has hard links; elsewhere a reader may find a part of it
    for an instant. Raises OSError where it cannot be written, and then leaves nothing. Signal
    handlers and threads may call it at the same time.
    """
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, ".%s.%s" % (name, os.urandom(8).hex()))
    try:
        with open(fresh, "x", encoding="utf-8") as stream:
            stream.write(text)
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
        except OSError:  # no hard links here, such as on FAT and some network file systems
            return _create(path, text)
        return True
    finally:
        with contextlib.suppress(OSError):
            os.unlink(fresh)


def _create(path: str | os.PathLike[str], text: str) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        os.unlink(path)  # half a cause would keep every later one out
        raise
    return True
