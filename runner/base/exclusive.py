"""Files that one process creates, or holds, and no other; folders of one user alone.

The standard library alone.
"""

import fcntl
import time
from pathlib import Path
from typing import IO, Any


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are not there, for this user alone (0700)."""
    above = (folder, *folder.parents)
    for each in reversed([path for path in above if not path.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)


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
