"""Files that a person names: read within bounds, and written whole or not at all."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from node.files import read_start
from node.printable import printable
from runner.base.errors import UserError


def read_text(path: Path, most: int, what: str) -> str:
    """Return a plain file's text in UTF-8, of at most `most` bytes; `what` is what it is to be.

    Raises UserError of one sentence: a device, a pipe and a socket are no files, for they may have
    no end.
    """
    where = printable(str(path))
    try:
        content = read_start(path, most + 1)
        if content is None:
            raise UserError(f"{where} is not a plain file, so it cannot be {what}")
        if len(content) > most:
            raise UserError(f"{where} has more than {most} bytes, too many for {what}")
        return content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{where} is not text in UTF-8, so it cannot be {what}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{where} cannot be read: {why}") from None


@contextmanager
def whole(target: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a stream whose bytes take the place of `target` once all are on the disk.

    Until then, and where anything fails, `target` is what it was. What is no plain file, such as
    /dev/stdout, is written as it is. `mode` is that of a new file. Raises OSError.
    """
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            yield stream
        return
    if target.is_file():
        mode = stat.S_IMODE(target.stat().st_mode)
    fresh = target.with_name(f".{target.name}.tmp")
    try:
        fresh.unlink(missing_ok=True)  # of a process that was killed, and whatever else it may be
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(fresh, flags, mode), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        fresh.unlink(missing_ok=True)
