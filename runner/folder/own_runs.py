"""Which run.json bench wrote for this user: checksums of path and bytes, in a state folder.

A run's folder does not say whose it is: one of an unpacked export looks like one's own, wherever
it is. So the record is outside of all folders of runs. A copy elsewhere is not one's own: what is
beside it, which a rerun reads, may be a stranger's.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from runner.base.exclusive import make_private

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def record() -> Path:
    """Return the file of checksums: trainbench/runs.sha256 of XDG_STATE_HOME (~/.local/state)."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    above = state if state.is_absolute() else Path.home() / ".local" / "state"
    return above / "trainbench" / "runs.sha256"


def remember(file: Path, content: bytes) -> None:
    """Record a run.json that is about to be carried out.

    Where it cannot be recorded, `rerun` asks before it executes it, and nothing else is lost.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home folder
        path = record()
        make_private(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        try:
            os.write(handle, _line(file, content))
        finally:
            os.close(handle)


def is_own(file: Path, content: bytes) -> bool:
    """Return whether bench recorded these bytes there; never by a file that others can write."""
    try:
        path = record()
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            file_status, folder = os.fstat(handle), path.parent.stat()
            private = all(
                status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE
                for status in (file_status, folder)
            )
            return private and stat.S_ISREG(file_status.st_mode) and _line(file, content) in stream
    except (OSError, RuntimeError):
        return False


def _line(file: Path, content: bytes) -> bytes:
    entry = os.fsencode(file.resolve()) + b"\0" + content
    return hashlib.sha256(entry).hexdigest().encode() + b"\n"
