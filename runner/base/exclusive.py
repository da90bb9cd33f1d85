"""Files that one process creates, or holds, and no other; folders of one user alone.

The standard library alone.
"""

import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import IO, Any


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are not there, for this user alone (0700)."""
    above = (folder, *folder.parents)
    for each in reversed([path for path in above if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)


def create_once(path: Path, text: str) -> bool:
    """Create the file with `text` unless it is there; whether this call did.

    It appears whole where the file system has hard links; elsewhere a reader may find a part of it
    for an instant. Raises OSError where it cannot be written, and then leaves nothing. Signal
    handlers and threads may call it at the same time.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        fresh.write_text(text, encoding="utf-8")
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
        except OSError:  # no hard links here, such as on FAT and some network file systems
            return _create(path, text)
        return True
    finally:
        fresh.unlink(missing_ok=True)


def take(handle: IO[Any], patience_s: float) -> bool:
    """Lock an open file (flock) for this process; False where another holds it for so long."""
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        else:
            return True


def _create(path: Path, text: str) -> bool:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        path.unlink(missing_ok=True)  # half a cause would keep every later one out
        raise
    return True
