"""A file that is created once, by whoever comes first. The standard library alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


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
