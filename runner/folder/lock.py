"""A folder that one process holds: its lock, and the word in it that says which."""

import contextlib
import fcntl
import os
import platform
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from node.files import open_plain
from node.printable import printable
from node.program_output import os_error_words
from runner.base.errors import UserError
from runner.base.exclusive import (
    make_private,
    open_lock,
    refuse_untrusted,
    refuse_untrusted_inside,
    take,
)
from runner.folder import names
from runner.folder.group_access import give, let_group_read, refuse_other_group

# What is written before it gets its name: by write_json and the launch plugin's save, create_once,
# and BroughtLog.
HALF_WRITTEN = re.compile(r"^\..+\.(tmp|[0-9a-f]{16})|" + re.escape(names.PART))
MOST_HOLDER = 1000  # bytes of a lock that are read
LOCK_PATIENCE_S = 2.0  # a launch plugin may hold the lock for an instant, to test it


class HeldFolder:
    """A folder of runs that a bench or a doctor holds while it launches them.

    `holder` is what this process wrote into the lock, while it holds it: no other's is the same.
    `group` may read what is in it, from the end of each run (`cluster_group`); empty: this user
    alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holder = ""
        self.group = ""

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
            with open_plain(self.lock) as handle:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a link, which nothing can hold
            return False
        return False

    @property
    def held_by(self) -> tuple[int, str]:
        """Return the process that took the lock last, and its machine; (0, "") where none says."""
        try:
            with open_plain(self.lock) as handle:
                _, pid, machine = printable(
                    handle.read(MOST_HOLDER).decode(errors="replace")
                ).split()
                return int(pid), machine
        except (OSError, ValueError):
            return 0, ""

    @property
    def by_whom(self) -> str:
        """Say in brackets which process took the lock."""
        pid, machine = self.held_by
        return f" (process {pid} on {machine})" if pid else ""

    def holding_process(self) -> int:
        """Return the process of this machine that holds the folder; 0 where none can be seen.

        What the lock says is not enough: it is that process only if it has the lock open.
        """
        pid, machine = self.held_by
        if machine != platform.node() or not self.is_locked():
            return 0
        with contextlib.suppress(OSError):
            lock = self.lock.stat()
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samestat(link.stat(), lock):
                        return pid
        return 0

    @property
    def refusal(self) -> str:
        """What another process is told that wants the folder, too."""
        raise NotImplementedError

    @contextlib.contextmanager
    def locked(self, group: str | None = "") -> Iterator[None]:
        """Hold the folder for this process, without the half-written files of a killed one.

        What is in it is executed later: nobody but this user and `group` may change it; None where
        nothing is. Raises UserError where another process has it, or somebody else can.
        """
        self.group = group or ""
        if self.group:
            refuse_other_group(self.group)
        with _kept_as_it_was(self.path):
            new_folders = make_held(self.path)
            if group is not None:
                refuse_untrusted(self.path, group)
                refuse_untrusted_inside(self.path, group)
            if self.group:
                for folder in {
                    *new_folders,
                    self.path,
                }:  # not a folder of runs that was there before
                    give(folder, self.group)
        with lock_held(self.lock, self.refusal) as self.holder:
            for path in self.path.rglob("*"):
                if HALF_WRITTEN.fullmatch(path.name) and not path.is_dir():
                    path.unlink(missing_ok=True)
            try:
                yield
            finally:
                self.share(self.path)

    def share(self, inside: Path) -> None:
        """Let the inventory's group read a folder that this process holds, or one inside it."""
        if self.group and inside.is_dir():
            with contextlib.suppress(OSError):  # it could be given when the folder was locked
                let_group_read(self.path, inside, self.group)


@contextlib.contextmanager
def lock_held(lock: Path, refusal: str) -> Iterator[str]:
    """Hold a lock file and the folder around it; what in it says who does.

    A launch plugin that outlived its bench tells by a word in it that the lock is a later bench's.
    Raises UserError where another process holds it.
    """
    with _locked_file(lock, refusal) as handle:
        holder = f"{secrets.token_hex(16)} {os.getpid()} {platform.node() or '-'}"
        handle.truncate(0)
        handle.write(holder.encode())
        handle.flush()
        os.utime(handle.fileno())  # its time says which campaign was run last
        yield holder


def _locked_file(lock: Path, refusal: str) -> IO[bytes]:
    """Take the lock. Who had it before may have removed it with its folder: then a new one."""
    while True:
        make_held(lock.parent)
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as opened:
            handle = opened.enter_context(open_lock(lock))
            if not take(handle, LOCK_PATIENCE_S):
                raise UserError(
                    f"{refusal}; wait for it, or end it by `python -m runner stop` or Ctrl-C there"
                )
            if os.path.samestat(os.fstat(handle.fileno()), lock.stat()):
                opened.pop_all()
                return handle


@contextlib.contextmanager
def _kept_as_it_was(folder: Path) -> Iterator[None]:
    """Remove a folder again that was not there, where it is refused."""
    there = folder.exists()
    try:
        yield
    except UserError:
        if not there:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def make_held(folder: Path) -> list[Path]:
    """Make a folder that is to be held, for this user alone; return the new ones, as make_private.

    Raises UserError.
    """
    try:
        return make_private(folder)
    except OSError as error:
        why = os_error_words(error, str(folder))
        raise UserError(
            f"the folder {folder} cannot be made: {why}; name another with --runs"
        ) from None
