"""The node's side of a prefetched folder: what is lacking, and what came is put in place.

    prefetched:have     answer {"lacking": [paths], "extra": [paths]}

Its spec: folder (absolute), files (relative path to [size in bytes, sha256]: all that the
folder is to have), place (paths that are `<path>.part` now), check (change nothing).
Extra files, which are of an older prefetch, are removed.

A file is read for its checksum once: `.have.json` keeps its size and time beside it.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from node import parsing
from node.answer import ProgramError
from node.checksum import sha256
from node.files import write_text
from node.schema import Fields, List, Mapped, Row, Text, Whole
from node.validated_text import InsidePath, Sha256

RECORD = ".have.json"
FILES = Mapped(InsidePath, Row(Whole(), Sha256))
KNOWN = Mapped(Text(), Fields({"stamp": List(Whole(), most=2, least=2), "sha256": Sha256}))
MIB = 1 << 20


class SiteError(ProgramError):
    """What is wrong with the folder, with the cure."""


def stamp(path: str) -> list[int]:
    """What tells whether a file was touched since."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def walk(folder: str) -> list[str]:
    """Every file below the folder, by relative path; links are not ours."""
    return [
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    ]


class Folder:
    """The folder, with the record of checksums that were read already."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.path: str = spec["folder"]
        self.files: dict[InsidePath, tuple[int, str]] = FILES.check(spec["files"], "files")
        self.record: dict[str, Any] = parsing.recall(self.full(InsidePath(RECORD)), KNOWN)

    def full(self, path: InsidePath) -> str:
        """The path on this node."""
        return os.path.join(self.path, path)

    def has(self, path: InsidePath) -> bool:
        """Whether the file is there with its checksum."""
        full, (size, expected_sum) = self.full(path), self.files[path]
        if not os.path.isfile(full) or os.path.getsize(full) != size:
            return False
        record = self.record.get(path, {})
        if record.get("stamp") != stamp(full):
            record = self.record[path] = {"stamp": stamp(full), "sha256": sha256(full)}
        return bool(record["sha256"] == expected_sum)

    def lacking(self) -> list[InsidePath]:
        """The files that are not there, or have another checksum."""
        return [path for path in self.files if not self.has(path)]

    def extra(self) -> list[str]:
        """What an older prefetch, or a transfer that broke off, left."""
        return [path for path in walk(self.path) if path not in self.files and path != RECORD]

    def make_room(self, lacking: list[InsidePath]) -> None:
        """Folders for what will come. Raises SiteError where the disk is too small."""
        for path in lacking:
            os.makedirs(os.path.dirname(self.full(path)), exist_ok=True)
        needed = sum(self.files[path][0] for path in lacking)
        os.makedirs(self.path, exist_ok=True)
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise SiteError(
                f"{self.path} needs {needed // MIB} MiB more, and its disk has {free // MIB} MiB"
                " free; make room, or name another cluster_root"
            )

    def move_in(self, paths: list[InsidePath]) -> None:
        """Put in place what came, if it is what was sent."""
        for path in paths:
            partial = self.full(path) + ".part"
            if sha256(partial) != self.files[path][1]:
                os.unlink(partial)
                raise SiteError(f"{path} came damaged; run it again")
            os.replace(partial, self.full(path))

    def save(self) -> None:
        """Keep what was read, for the next run."""
        record = {path: self.record[path] for path in sorted(self.record) if path in self.files}
        write_text(self.full(InsidePath(RECORD)), json.dumps(record, indent=1))


def have(spec: dict[str, Any]) -> dict[str, Any]:
    """Look, or put in place and look again."""
    folder = Folder(spec)
    if not spec["check"]:
        folder.move_in([path for path in folder.files if path in set(spec["place"])])
    lacking, extra = folder.lacking(), folder.extra()
    if not spec["check"]:
        for path in extra:
            os.unlink(os.path.join(folder.path, path))
        folder.make_room(lacking)
        folder.save()
    return {"lacking": lacking, "extra": extra}
