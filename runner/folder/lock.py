"""A folder that one process holds: its lock, and the word in it that says which."""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from runner.base.errors import UserError
from runner.base.exclusive import make_private, take
from runner.folder import names

# What is written before it gets its name: by write_json and the launch plugin's save, create_once,
# and BroughtLog.
HALF_WRITTEN = re.compile(r"^\..+\.(tmp|[0-9a-f]{16})|" + re.escape(names.PART))
LOCK_PATIENCE_S = 2.0  # a launch plugin may hold the lock for an instant, to test it


class HeldFolder:
    """A folder of runs that a bench or a doctor holds while it launches them.

    `holder` is what this process wrote into the lock, while it holds it: no other's is the same.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holder = ""

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def lock(self) -> Path:
        """Held (flock) by who launches; a launch ends where nobody holds it."""
        return self.path / names.LOCK

    def is_locked(self) -> bool:
        """Return whether a living process holds the folder."""
        if not self.lock.is_file():
            return False
        try:
            with self.lock.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    @property
    def refusal(self) -> str:
        """What another process is told that wants the folder, too."""
        raise NotImplementedError

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for this process, without the half-written files of a killed one.

        Raises UserError where another process has it.
        """
        with held(self.lock, self.refusal) as self.holder:
            for path in self.path.rglob("*"):
                if HALF_WRITTEN.fullmatch(path.name) and not path.is_dir():
                    path.unlink(missing_ok=True)
            yield


@contextlib.contextmanager
def held(lock: Path, refusal: str) -> Iterator[str]:
    """Hold a lock file and the folder around it; the word in it that says who does.

    A launch plugin that outlived its bench tells by the word that the lock is a later bench's.
    Raises UserError where another process holds it.
    """
    with _taken(lock, refusal) as handle:
        holder = secrets.token_hex(16)
        handle.truncate(0)
        handle.write(holder.encode())
        handle.flush()
        os.utime(handle.fileno())  # its time says which campaign was run last
        yield holder


def _taken(lock: Path, refusal: str) -> IO[bytes]:
    """Take the lock. Who had it before may have removed it with its folder: then a new one."""
    while True:
        try:
            make_private(lock.parent)
        except OSError as error:
            raise UserError(
                f"the folder {lock.parent} cannot be made: {error.strerror}; name another with"
                " --runs"
            ) from None
        if lock.exists() and not lock.is_file():
            raise UserError(f"{lock} is not a plain file, so nothing can hold it; remove it")
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
            handle = opened.enter_context(lock.open("a+b"))
            if not take(handle, LOCK_PATIENCE_S):
                raise UserError(f"{refusal}; wait for it, or end it with Ctrl-C there")
            if os.path.samestat(os.fstat(handle.fileno()), lock.stat()):
                opened.pop_all()
                return handle
