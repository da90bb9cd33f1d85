"""The lock of a folder: one process holds it, and a word in it says which."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from runner.base.errors import UserError
from runner.base.exclusive import take

LOCK_PATIENCE_S = 2.0  # a launch plugin may hold the lock for an instant, to test it


@contextlib.contextmanager
def held(lock: Path, refusal: str) -> Iterator[str]:
    """Hold a lock file and the folder around it; the word in it that says who does.

    A launch plugin that outlived its bench tells by the word that the lock is a later bench's.
    Raises UserError where another process holds it.
    """
    folder = lock.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the folder {folder} cannot be made: {error.strerror}; name another with --runs"
        ) from None
    with lock.open("a+b") as handle:
        if not take(handle, LOCK_PATIENCE_S):
            raise UserError(f"{refusal}; wait for it, or end it with Ctrl-C there")
        holder = secrets.token_hex(16)
        handle.truncate(0)
        handle.write(holder.encode())
        handle.flush()
        os.utime(handle.fileno())  # its time says which campaign was run last
        yield holder
