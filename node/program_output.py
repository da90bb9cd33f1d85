"""What files and programs of a node say, as values."""

from __future__ import annotations

import errno
import os
import re

from node.printable import printable

FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_BELOW = 16 << 20  # bytes: a file system with less is the full one of several
# the end of Python's own words for it, such as pip prints
_UNWRITTEN = re.compile(r"[Nn]o space left on device: '(/[^'\n]{1,1000})'")


def pairs(text: str | None, separator: str) -> dict[str, str]:
    """The first value of each key of `key<separator>value` lines."""
    values: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, there, value = line.partition(separator)
        if there:
            values.setdefault(key.strip(), value.strip().strip('"'))
    return values


def last_line(text: str) -> str:
    """A failing tool's last words."""
    return last_lines(text, 1).strip()[:300] or "no output"


def last_lines(output: str, most: int) -> str:
    """The last lines of what a program printed, without the empty ones."""
    return "\n".join([line.rstrip() for line in output.splitlines() if line.strip()][-most:])


def found_a_full_disk(output: str) -> bool:
    """Whether a program says that the disk is full."""
    return "no space left on device" in output.lower()


def human(size: float) -> str:
    """A size in bytes as people say it."""
    if size < 1024:
        return f"{size:.0f} bytes"
    units = ["KiB", "MiB", "GiB", "TiB"]
    size /= 1024
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.1f} {units[0]}"


def full_disk(*folders: str, output: str = "") -> str:
    """Which disk is full: of several folders', those without room if any are so, each once.

    Each with the folder, where its file system is mounted, and the bytes that are free there. A
    program's `output` may name the very file that it could not write: then that one's alone.
    """
    unwritten = _UNWRITTEN.findall(output)[-1:]
    disks: dict[int, tuple[bool, str]] = {}
    for folder in map(os.path.abspath, unwritten or folders):
        while not os.path.exists(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        disks.setdefault(os.stat(folder).st_dev, _disk(folder))
    full = [disk for is_full, disk in disks.values() if is_full]
    return f"the disk is full ({', '.join(full or [disk for _, disk in disks.values()])})"


def _disk(folder: str) -> tuple[bool, str]:
    """Whether a folder's file system has no room, and what it has, in words."""
    mounted = folder
    while not os.path.ismount(mounted):
        mounted = os.path.dirname(mounted)
    state = os.statvfs(folder)
    free, total = (blocks * state.f_frsize for blocks in (state.f_bavail, state.f_blocks))
    where = folder if folder == mounted else f"{folder}, mounted at {mounted},"
    files = " and no free inodes" if state.f_files and not state.f_favail else ""
    sentence = printable(f"{where} has {human(free)} of {human(total)} free{files}")
    return free < FULL_BELOW or bool(files), sentence


def os_error_words(error: OSError, *folders: str) -> str:
    """What the system says of a failed write; of a full disk also which one.

    `folders` are where it wrote, for an error that does not name its file.
    """
    reason = error.strerror or str(error)
    if error.errno not in FULL:
        return reason
    at = error.filename if isinstance(error.filename, (str, bytes)) else None
    return f"{reason}: {full_disk(*([os.fsdecode(at)] if at else folders or [os.getcwd()]))}"
