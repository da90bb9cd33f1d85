"""Files that one process creates, or holds, and no other; folders of one user alone.

The standard library alone.
"""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import IO, Any

from node.trusted_folder import UntrustedError, check, own_groups, refuse
from runner.base.errors import UserError


def make_private(folder: Path) -> list[Path]:
    """Make a folder and those above it that are not there, for this user alone (0700).

    Returns those that were missing, the uppermost first.
    """
    above = (folder, *folder.parents)
    missing_folders = [path for path in reversed(above) if not path.exists()]
    for missing_folder in missing_folders:
        missing_folder.mkdir(mode=0o700, exist_ok=True)
    return missing_folders


def refuse_untrusted(folder: Path, group: str = "", *, above: bool = True) -> None:
    """Refuse a folder to execute from that anybody else can change, except the named group.

    Raises UserError that names the cure.
    """
    try:
        check(str(folder), own_groups(group), above)
    except UntrustedError as error:
        raise UserError(str(error)) from None


def refuse_untrusted_inside(folder: Path, group: str = "") -> None:
    """Refuse a folder, or a link to one, inside a trusted folder that anybody else can change.

    One that was open to others before may still hold theirs. Raises UserError.
    """
    groups = own_groups(group)
    try:
        for above, folders, _ in os.walk(folder):
            for name in folders:
                path = os.path.join(above, name)
                refuse(path, os.lstat(path), groups)
    except UntrustedError as error:
        raise UserError(str(error)) from None


def open_lock(path: Path) -> IO[bytes]:
    """Open a lock file, created if missing: a plain file of that one name, and no link.

    So nothing else is emptied by who writes into it. Raises OSError, UserError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
        facts = os.fstat(handle)
        if stat.S_ISREG(facts.st_mode) and facts.st_nlink <= 1:  # 0: it was just removed
            return open(handle, "r+b")
        os.close(handle)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
    raise UserError(f"{path} is not a plain file, so it cannot be locked; remove it")


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
