"""Samples of a run's nodes, and when their logs grew, in whichever form they are there.

    nodes/<rank>-<host>/samples.csv, arrivals    plain, as over ssh; older: timeline.jsonl
    nodes/<rank>-<host>/samples.zip    both, as a node brings them that keeps them on its own disk
                                       (node/supervisor/own_disk.py)
    samples.zip                        those of all nodes, <rank>-<host>.zip each, once nothing of
                                       the campaign runs any more

An archive comes from elsewhere: what does not fit is taken for missing.
"""

import os
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from node.files import open_plain, read_start
from runner.base.files import atomic_file
from runner.folder import names

MOST_BYTES = 64 << 20  # of one part: days of samples
MOST_LISTED = 8 << 20  # bytes of the list of what is in an archive: 80,000 nodes
PARTS = (names.SAMPLES, names.ARRIVALS, names.TIMELINE)
NODE = ".zip"  # ends the name of a node's archive in its run's
_HEADER = struct.Struct("<26xHH")  # of a member: how long its name and its extra field are
_DAMAGED = (
    *(OSError, BadZipFile, ValueError, KeyError, EOFError, RuntimeError, NotImplementedError),
    *(struct.error, zlib.error),
)


def read_part(node: Path, name: str) -> bytes:
    """Return a file of PARTS of a node's folder; empty where it is missing. Raises OSError."""
    with suppress(FileNotFoundError):
        return read_start(node / name, MOST_BYTES) or b""
    return parts_of(_archive(node)).get(name, b"")


def has_part(node: Path, name: str) -> bool:
    """Return whether a file of PARTS is there, in any form."""
    return (node / name).is_file() or (node / names.PACKED).is_file() or node.name in _index(node)


def parts_of(archive: bytes) -> dict[str, bytes]:
    """Return the files of PARTS in a node's archive."""
    try:
        with _opened(BytesIO(archive)) as packed:
            there = [name for name in PARTS if name in packed.namelist()]
            parts = {}
            for name in there:
                with packed.open(name) as stream:
                    parts[name] = stream.read(MOST_BYTES)
            return parts
    except _DAMAGED:
        return {}


def nodes_of(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the nodes of a run's archive: the name of the folder of each, its own archive."""
    for name, member in _members(archive).items():
        yield name, _member(archive, member)


def pack(run: Path) -> None:
    """Pack the archives of the nodes of a run into one archive of the run, and remove the roster.

    Nothing is removed before the archive is on the disk; what comes later stays beside it.
    Raises OSError.
    """
    archives = sorted((run / names.NODES).glob(f"*/{names.PACKED}"))
    target = run / names.PACKED
    if archives and not target.exists():
        with atomic_file(target, 0o600, follow=False) as stream, ZipFile(stream, "w") as packed:
            for path in archives:
                content = read_start(path, MOST_BYTES)
                if content is not None:
                    packed.writestr(ZipInfo(f"{path.parent.name}{NODE}"), content, ZIP_STORED)
        there = _members(target)
        for path in archives:
            if path.parent.name in there:
                path.unlink()
    shutil.rmtree(run / names.ROSTER, ignore_errors=True)


def _archive(node: Path) -> bytes:
    """Return a node's archive, beside its log or in its run's; empty where it is missing."""
    with suppress(FileNotFoundError):
        return read_start(node / names.PACKED, MOST_BYTES) or b""
    member = _index(node).get(node.name)
    return _member(_of_run(node), member) if member is not None else b""


def _of_run(node: Path) -> Path:
    return node.parent.parent / names.PACKED


def _index(node: Path) -> Mapping[str, ZipInfo]:
    return _members(_of_run(node))


def _members(archive: Path) -> Mapping[str, ZipInfo]:
    """Return the nodes of a run's archive; none where it is missing or damaged."""
    try:
        facts = os.stat(archive, follow_symlinks=False)
    except OSError:
        return {}
    return _members_at(archive, facts.st_mtime_ns, facts.st_size)


@lru_cache(8)
def _members_at(archive: Path, _mtime_ns: int, _size: int) -> Mapping[str, ZipInfo]:
    try:
        with open_plain(archive) as stream, _opened(stream) as packed:
            return {
                info.filename.removesuffix(NODE): info
                for info in packed.infolist()
                if info.compress_type == ZIP_STORED and info.file_size <= MOST_BYTES
            }
    except _DAMAGED:
        return {}


def _opened(stream: IO[bytes]) -> ZipFile:
    """Open an archive whose list is no longer than ours are. Raises one of _DAMAGED."""
    end = zipfile._EndRecData(stream)  # type: ignore[attr-defined]  # before ZipFile reads all of it
    if not end or end[zipfile._ECD_SIZE] > MOST_LISTED:  # type: ignore[attr-defined]
        raise BadZipFile("no list, or too long a one")
    return ZipFile(stream)


def _member(archive: Path, info: ZipInfo) -> bytes:
    """Read one node's archive, without the list of all others; empty where it is damaged."""
    try:
        with open_plain(archive) as stream:
            stream.seek(info.header_offset)
            name, extra = _HEADER.unpack(stream.read(_HEADER.size))
            stream.seek(name + extra, os.SEEK_CUR)
            content = stream.read(info.file_size)
    except (OSError, struct.error):
        return b""
    return content if zlib.crc32(content) == info.CRC else b""
