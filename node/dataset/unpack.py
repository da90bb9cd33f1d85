"""Decompress one file: xz, bz2, gz, zip or tar, as a stream, whole or not at all."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import itertools
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

from node import fetch
from node.checksum import BLOCK
from node.program_output import FULL, human

OPEN: dict[str, Any] = {"xz": lzma.open, "bz2": bz2.open, "gz": gzip.open}
KINDS = (*OPEN, "zip", "tar")
# RuntimeError and NotImplementedError are zipfile's, of what it does not know; RecursionError is
# tarfile's, of headers that each announce another.
DAMAGED = (
    *(lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError),
    *(RuntimeError, OverflowError),
)
MOST_MEMBERS = 100_000  # of a tar, up to the one that is taken out
MOST_GROWTH = 200  # times an archive's bytes; text of documented datasets grows 20-fold
SLACK = 64 << 20  # bytes beside that


@contextlib.contextmanager
def _opened(archive: str, kind: str, member: str) -> Iterator[IO[bytes]]:
    """The content as a stream; ``member`` is the file to take out of a zip or tar."""
    if kind in OPEN:
        with OPEN[kind](archive, "rb") as stream:
            yield stream
    elif kind == "zip":
        with zipfile.ZipFile(archive) as box, box.open(member) as stream:
            yield stream
    else:
        # "r|*": from the beginning to the member once, whatever it is compressed with
        with tarfile.open(archive, "r|*") as pack:
            for entry in itertools.islice(pack, MOST_MEMBERS):
                member_stream = (
                    pack.extractfile(entry) if entry.isfile() and entry.name == member else None
                )
                if member_stream is not None:
                    with member_stream:
                        yield member_stream
                    return
            raise KeyError(member)


def unpack(archive: str, target: str, kind: str, member: str = "") -> int:
    """Write the archive's content to ``target``; its size in bytes.

    Raises fetch.FetchError: a damaged archive, which is removed so that the next run fetches it
    again; a member that is not in it; a full disk.
    """
    if kind not in KINDS:
        raise fetch.FetchError(f"{kind!r} is not a kind of archive; there are {', '.join(KINDS)}")
    partial = target + ".part"
    most = SLACK + MOST_GROWTH * os.path.getsize(archive)
    try:
        with _opened(archive, kind, member) as stream, open(partial, "wb") as file:
            while True:
                block = stream.read(BLOCK)
                if not block:
                    break
                if file.tell() + len(block) > most:
                    raise fetch.FetchError(
                        f"{archive} holds more than {human(most)}, {MOST_GROWTH} times what "
                        "it has itself; correct the catalogue"
                    )
                file.write(block)
            size = file.tell()
        os.replace(partial, target)
        return size
    except KeyError:
        raise fetch.FetchError(f"{archive} holds no {member}; correct the catalogue") from None
    except (*DAMAGED, OSError) as error:
        number = getattr(error, "errno", None)  # none in what gzip and bz2 say of foreign bytes
        if number in FULL:
            _remove(partial)
            raise fetch.full(os.path.dirname(target), os.path.basename(target), None) from None
        if number is not None:
            raise
        os.unlink(archive)
        raise fetch.FetchError(
            f"{archive} is damaged ({error}); it was removed, run this again to download it again"
        ) from None
    finally:
        _remove(partial)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
