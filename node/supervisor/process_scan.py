"""The processes that this one sees, and whose they are; disks. What is hidden is not there."""

from __future__ import annotations

import os
import pwd

from node.files import read_text

from . import leftovers
from .leftovers import Disk, SeenProcess

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Iterator


class Around:
    """The processes that this one sees; read when they are first asked for."""

    def __init__(self) -> None:
        self.me = os.geteuid()
        self.pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        self.up_s = float((read_text("/proc/uptime").split() or ["0"])[0])
        self.ticks, self.page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        self._table: dict[int, SeenProcess] | None = None

    @property
    def table(self) -> dict[int, SeenProcess]:
        """All processes, by pid."""
        if self._table is None:
            processes = ((pid, self.process(pid)) for pid in self.pids)
            self._table = {pid: process for pid, process in processes if process is not None}
        return self._table

    @property
    def own(self) -> set[int]:
        """This process, and those that started it."""
        found, pid = {0}, os.getpid()
        while pid not in found:
            found.add(pid)
            parent = self.table.get(pid)
            pid = parent.ppid if parent else 0
        return found

    @property
    def readable(self) -> Iterator[int]:
        """Pids of which files and memory can be read: one's own, or all for root."""
        return (pid for pid in self.pids if not self.me or uid_of(pid) == self.me)

    def process(self, pid: int) -> SeenProcess | None:
        """Read a process now; None where it is gone, or hidden."""
        stat = read_bytes("/proc/%d/stat" % pid)
        return leftovers.process(stat, self.up_s, self.ticks, self.page)

    def who(self, one: SeenProcess) -> str:
        """Name a process, with its user, age and Slurm job where they can be seen."""
        return leftovers.named(
            one, user_of(uid_of(one.pid)), read_text("/proc/%d/cgroup" % one.pid)
        )

    def named(self, pid: int, program: str) -> str:
        """Name a process that a device's tool named.

        The tool may have its pid from another namespace, where ours has another process or none.
        """
        process = self.process(pid)
        command = read_bytes("/proc/%d/cmdline" % pid).split(b"\0")[0].decode("utf-8", "replace")
        same = process is not None and program in (process.name, os.path.basename(command), "")
        return self.who(process) if process is not None and same else "pid %d (%s)" % (pid, program)


def read_bytes(path: str) -> bytes:
    """Return a file's bytes; none where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as stream:  # there are thousands, small and in memory
            return stream.read()
    except OSError:
        return b""


def uid_of(pid: int) -> int | None:
    """Return whose a process is; None where it is gone, or hidden."""
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None


def user_of(uid: int | None) -> str:
    """Return a user's name, or the number where it has none here."""
    if uid is None:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid


def disk_of(path: str) -> Disk | None:
    """Return the file system on which `path` is or will be; None where it cannot be asked."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path.rstrip("/"))
    try:
        stats = os.statvfs(path)
    except OSError:
        return None
    unit = stats.f_frsize
    return Disk(stats.f_blocks * unit, stats.f_bavail * unit, stats.f_files, stats.f_favail)
