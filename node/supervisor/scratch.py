"""A run's folder on a disk of the node's own: what compilers cache, and temporary files.

It is made before the run and removed with it. A lock in it is held as long as the supervisor lives,
so that the next run on the node finds, by the kernel's word, what a killed one left.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

from node.causes import Cause
from node.program_output import os_error_words

from .answers import RefusedError

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

PREFIX = "trainbench-run-"  # begins the names of such folders
HELD = ".held"  # the lock in each: whoever finds it, finds it locked, or its owner dead
UNHELD_S = 3600.0  # then a folder without that lock is nobody's who is about to make it
RESTARTED_S = 60.0  # that a start by Slurm waits for what the one before it brings home
TEMPORARY = "tmp"  # in it, for TMPDIR
SHARED = (  # kinds of file systems that nodes share, as /proc/self/mounts names them
    *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "glusterfs", "panfs", "wekafs"),
    *("afs", "9p", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "daos"),
)


def make(job: dict[str, Any]) -> None:
    """Make the run's scratch folder. Raises RefusedError."""
    path = job.get("scratch")
    if not path:
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _wait_for_the_start_before(job, path)
        if os.path.lexists(path):
            raise RefusedError(
                Cause.NODE_BUSY, "%s exists: wait for the run that uses it, or remove it" % path
            )
        os.mkdir(path, 0o700)
        hold(path)
        os.mkdir(os.path.join(path, TEMPORARY), 0o700)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise RefusedError(
            Cause.DISK_FULL if full else Cause.IO_ERROR,
            "cluster_scratch: %s cannot be made (%s); give this user a folder on a disk of the"
            " node's own" % (path, os_error_words(error, os.path.dirname(path))),
        )


def _wait_for_the_start_before(job: dict[str, Any], path: str) -> None:
    """Wait until the folder of a requeued job's earlier start is gone: both have one name, and the
    guard of the earlier one may still bring its samples home.
    """
    if os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
        return
    until = time.monotonic() + RESTARTED_S
    while os.path.lexists(path) and time.monotonic() < until:
        time.sleep(0.2)
        sweep(job)


def hold(path: str) -> None:
    """Lock a new scratch folder for the life of this process and its daemon.

    The descriptor stays open on purpose: the kernel unlocks it when the last of them has ended.
    """
    lock_path = os.path.join(path, HELD)
    handle = os.open(lock_path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.rename(lock_path + ".new", lock_path)


def sweep(job: dict[str, Any]) -> None:
    """Remove what this user's runs left beside the run's folder where a supervisor was killed."""
    above = os.path.dirname(job.get("scratch") or "")
    try:
        names = os.listdir(above) if above else []
    except OSError:
        return
    for name in names:
        path = os.path.join(above, name)
        if not name.startswith(PREFIX):
            continue
        try:
            entry = os.lstat(path)
            mine = stat.S_ISDIR(entry.st_mode) and entry.st_uid == os.geteuid()
            if mine and nobodys(path, entry.st_mtime):
                clear(path)
        except OSError:
            continue  # it went meanwhile


def nobodys(path: str, changed: float) -> bool:
    """Whether the supervisor that made a scratch folder has ended."""
    try:
        handle = os.open(os.path.join(path, HELD), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - changed > UNHELD_S
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def remove(job: dict[str, Any]) -> None:
    """Remove the run's scratch folder, once its processes have ended.

    That of a run that keeps something there goes once it was brought (own_disk.bring).
    """
    if job.get("scratch") and not job.get("own"):
        clear(job["scratch"])


def clear(path: str) -> None:
    """Remove a folder with all that is in it; what cannot be removed is left to the next run."""
    import shutil  # a poll that ends no run does without

    shutil.rmtree(path, ignore_errors=True)


def notes(job: dict[str, Any]) -> list[str]:
    """Say in a sentence that the scratch folder is on a file system that nodes share."""
    path = job.get("scratch")
    kind = kind_of(path) if path else ""
    if kind not in SHARED:
        return []
    return [
        "cluster_scratch %s is on %s, which nodes share; name a folder on a disk of each node's own"
        % (os.path.dirname(path or ""), kind)
    ]


def kind_of(path: str) -> str:
    """Return the kind of the file system that a path is on, or will be; empty where unknown."""
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                fields = line.split()
                if len(fields) < 3:
                    continue
                point = fields[1].replace("\\040", " ")
                inside = os.path.join(path, "").startswith(os.path.join(point, ""))
                if inside and len(point) >= len(best):
                    best, kind = point, fields[2]
    except OSError:
        pass
    return kind
