"""Who has what in /dev/shm, where much of it is in use."""

from __future__ import annotations

import os
import time

from node.causes import Cause
from node.files import read_text

from . import leftovers
from .answers import RefusedError
from .leftovers import SHM, Shared
from .process_scan import Around, disk_of, uid_of, user_of

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Iterator

MOST_FILES = 5_000  # of a folder in /dev/shm that are counted


def look_at_shm(around: Around) -> list[str]:
    """Refuse a node without room in /dev/shm; note what dead processes left there."""
    disk = disk_of(SHM) if os.path.isdir(SHM) else None
    if disk is None or not disk.size or not leftovers.shm_needs_a_look(disk):
        return []
    held, deleted = held_in_shm(around)
    left: list[Shared] = []
    unseen = deleted
    uids = {uid for uid in map(uid_of, around.pids) if uid is not None}
    all_visible = os.path.exists("/proc/1/stat")
    for name, uid, inode, size, age_s in files_in_shm():
        shared = Shared(name, size, age_s, user_of(uid))
        readable = not around.me or uid == around.me
        gone = inode not in held and leftovers.dead(
            name, uid, age_s, around.pids, uids, readable, all_visible
        )
        (left if gone else unseen).append(shared)
    refusal = leftovers.shm_refusal(disk, left + unseen, around.who)
    if refusal:
        raise RefusedError(Cause.DISK_FULL, refusal)
    note = leftovers.shm_note(disk, left, around.who)
    return [note] if note else []


def files_in_shm() -> Iterator[tuple[str, int, int, int, float]]:
    """Yield the contents of /dev/shm: name, uid, inode, bytes, age; a folder with all within."""
    now = time.time()
    try:
        names = os.listdir(SHM)
    except OSError:
        return
    for name in names:
        path = os.path.join(SHM, name)
        try:
            entry = os.lstat(path)
        except OSError:
            continue
        size = entry.st_blocks * 512
        size += sum(size_of_all(path)) if os.path.isdir(path) else 0
        yield name, entry.st_uid, entry.st_ino, size, max(now - entry.st_mtime, 0.0)


def size_of_all(folder: str) -> Iterator[int]:
    """Yield the bytes of the files in a folder, of the first MOST_FILES."""
    left = MOST_FILES
    for inside, _, names in os.walk(folder):
        for name in names[:left]:
            left -= 1
            try:
                yield os.lstat(os.path.join(inside, name)).st_blocks * 512
            except OSError:
                continue


def held_in_shm(around: Around) -> tuple[set[int], list[Shared]]:
    """Return the inodes in /dev/shm that processes hold, and who holds deleted files there."""
    number = os.stat(SHM).st_dev
    device = "%02x:%02x" % (os.major(number), os.minor(number))
    held: set[int] = set()
    gone: dict[int, tuple[int, int]] = {}  # inode to bytes, pid
    for pid in sorted(around.readable):
        inside = list(leftovers.mapped(read_text("/proc/%d/maps" % pid), device))
        inside += open_in_shm(pid, number)
        for inode, size, deleted in inside:
            held.add(inode)
            if deleted:
                before, first_pid = gone.get(inode, (0, pid))
                gone[inode] = max(before, size), first_pid
    sizes: dict[int, int] = {}
    for size, pid in gone.values():
        sizes[pid] = sizes.get(pid, 0) + size
    holders = ((around.table.get(pid), size) for pid, size in sizes.items())
    return held, [
        Shared("", size, process.age_s, "", process)
        for process, size in holders
        if process is not None
    ]


def open_in_shm(pid: int, device: int) -> list[tuple[int, int, bool]]:
    """Return the files that a process has open in /dev/shm: inode, bytes, whether deleted."""
    files = []
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        path = "%s/%s" % (folder, name)
        try:
            if not os.readlink(path).startswith(SHM):
                continue  # not asked for more: it may be of a network file system that hangs
            entry = os.stat(path)
        except OSError:
            continue
        if entry.st_dev == device:
            files.append((entry.st_ino, entry.st_blocks * 512, entry.st_nlink == 0))
    return files
