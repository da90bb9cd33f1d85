"""Files that a person names: read within bounds, and written whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from node.files import NEW, read_start
from node.printable import printable
from node.program_output import os_error_words
from runner.base.errors import UserError


def read_text(path: Path, most: int, description: str) -> str:
    """Return a plain file's text in UTF-8, of at most `most` bytes; `description` is its purpose.

    Raises UserError of one sentence: a device, a pipe and a socket are not files, for they may have
    no end.
    """
    where = printable(str(path))
    try:
        content = read_start(path.resolve(), most + 1)  # a person may name a link
        if content is None:
            raise UserError(f"{where} is not a plain file, so it cannot be {description}")
        if len(content) > most:
            raise UserError(f"{where} has more than {most} bytes, too many for {description}")
        return content.decode()
    except UnicodeDecodeError:
        raise UserError(f"{where} is not text in UTF-8, so it cannot be {description}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in its name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"{where} cannot be read: {why}") from None


def write_text(path: Path, text: str) -> None:
    """Write a file that a person asked for, whole or not at all. Raises UserError."""
    try:
        with atomic_file(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        why = os_error_words(error, str(path.parent))
        raise UserError(f"{path} cannot be written: {why}") from None


@contextmanager
def atomic_file(target: Path, mode: int = 0o666, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Give a stream whose bytes take the place of `target` once all are on the disk.

    Until then, and where anything fails, `target` is what it was. What is not a plain file, such as
    /dev/stdout, is written as it is. `mode` is that of a new file. A link leads to the file that
    it names; without `follow` it is replaced, as in folders of runs. Raises OSError.
    """
    target = target.resolve() if follow else target.parent.resolve() / target.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if follow and target.exists() and not target.is_file():
        with target.open("wb") as stream:
            yield stream
        return
    if follow and target.is_file():
        mode = stat.S_IMODE(target.stat().st_mode)
    # Two processes that write one file have each their own, so that none takes half of the other's.
    fresh = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(os.open(fresh, NEW, mode), "wb") as stream:
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
