"""The node's side of a prefetched folder: what is lacking, and what came is put in place.

    python3 have.py < SPEC

SPEC is JSON: folder (absolute), files (relative path to [size in bytes, sha256]: all that the
folder is to have), place (paths that lie there as `<path>.part` now), check (change nothing).
Prints a line `TRAINBENCH {"lacking": [paths], "extra": [paths]}`; extra ones, which are of an
older prefetch, are removed. Runs on the node by its own Python (3.8 or newer). Exits 0, or 1 with
one line on stderr that says what is wrong and the cure.

A file is read for its checksum once: `.have.json` keeps its size and time beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from typing import Any

RECORD = ".have.json"
MIB = 1 << 20


class SiteError(Exception):
    """What is wrong with the folder, with the cure."""


def sha256_of(path: str) -> str:
    """The file's checksum."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(MIB), b""):
            found.update(block)
    return found.hexdigest()


def stamp(path: str) -> list[int]:
    """What tells whether a file was touched since."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def walk(folder: str) -> list[str]:
    """Every file below the folder, by relative path; links are none of ours."""
    return [
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    ]


class Folder:
    """The folder, with the record of checksums that were read already."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.path: str = spec["folder"]
        self.files: dict[str, tuple[int, str]] = spec["files"]
        try:
            with open(self.full(RECORD), encoding="utf-8") as file:
                self.record: dict[str, Any] = dict(json.load(file))
        except (OSError, ValueError):
            self.record = {}

    def full(self, path: str) -> str:
        """The path on this node."""
        return os.path.join(self.path, path)

    def has(self, path: str) -> bool:
        """Whether the file is there with its checksum."""
        full, (size, sha256) = self.full(path), self.files[path]
        if not os.path.isfile(full) or os.path.getsize(full) != size:
            return False
        known = self.record.get(path, {})
        if known.get("stamp") != stamp(full):
            known = self.record[path] = {"stamp": stamp(full), "sha256": sha256_of(full)}
        return bool(known["sha256"] == sha256)

    def lacking(self) -> list[str]:
        """The files that are not there, or have another checksum."""
        return [path for path in self.files if not self.has(path)]

    def extra(self) -> list[str]:
        """What an older prefetch, or a transfer that broke off, left."""
        return [path for path in walk(self.path) if path not in self.files and path != RECORD]

    def make_room(self, lacking: list[str]) -> None:
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

    def place(self, paths: list[str]) -> None:
        """Put in place what came, if it is what was sent."""
        for path in paths:
            part = self.full(path) + ".part"
            if sha256_of(part) != self.files[path][1]:
                os.unlink(part)
                raise SiteError(f"{path} came damaged; run it again")
            os.replace(part, self.full(path))

    def save(self) -> None:
        """Keep what was read, for the next run."""
        record = {path: self.record[path] for path in sorted(self.record) if path in self.files}
        with open(self.full(RECORD) + ".new", "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
        os.replace(self.full(RECORD) + ".new", self.full(RECORD))


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Look, or put in place and look again."""
    folder = Folder(spec)
    if not spec["check"]:
        folder.place(spec["place"])
    lacking, extra = folder.lacking(), folder.extra()
    if not spec["check"]:
        for path in extra:
            os.unlink(folder.full(path))
        folder.make_room(lacking)
        folder.save()
    return {"lacking": lacking, "extra": extra}


def main() -> int:
    """Run the command line; the exit code."""
    try:
        print("TRAINBENCH " + json.dumps(run(json.load(sys.stdin))))
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}; see rights and disk there", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
