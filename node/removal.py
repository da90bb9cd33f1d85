"""Folders that setup made: what they take on the disk, and their removal."""

from __future__ import annotations

import os
import shutil
from typing import Any

from node.program_output import human


def remove(spec: dict[str, Any]) -> dict[str, Any]:
    """Remove each of `paths` that exists, or with `check` look only.

    `told` has a line for each, with its size on the disk.
    """
    there = [path for path in spec["paths"] if os.path.lexists(path)]
    lines = [sized(path) for path in there]
    for path in () if spec["check"] else there:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return {"changed": bool(there), "told": lines}


def sized(path: str) -> str:
    """Return `PATH (1.2 GiB)`: what the files under it take; a link is not followed."""
    return f"{path} ({human(size_of(path))})"


def size_of(path: str) -> int:
    """Return the bytes on the disk of a file or of all under a folder; a file counts once."""
    inodes = set()
    total = 0
    for folder, _, names in [("", (), [path]), *os.walk(path)]:
        for name in names:
            try:
                status = os.lstat(os.path.join(folder, name))
            except OSError:  # it went meanwhile
                continue
            if (status.st_dev, status.st_ino) not in inodes:
                inodes.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
    return total
