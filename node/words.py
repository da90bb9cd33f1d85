"""What files and programs of a node say, as values."""

from __future__ import annotations

import os
import shutil


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
    return last_lines(text, 1).strip()[:300] or "it said nothing"


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


def full_disk(*folders: str) -> str:
    """Which disk is full, and how large it is; of several folders' disks, each is named once."""
    disks: dict[int, str] = {}
    for folder in map(os.path.abspath, folders):
        while not os.path.exists(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        usage = shutil.disk_usage(folder)
        disks.setdefault(
            os.stat(folder).st_dev,
            f"{folder} has {human(usage.free)} of {human(usage.total)} free",
        )
    return f"the disk is full ({', '.join(disks.values())})"
