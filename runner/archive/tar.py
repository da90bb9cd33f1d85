"""A tar, member by member, from a stream that is read once: plain files and folders alone.

`tarfile` acts on extended headers before its filter `data` sees a member: a map of holes took 2 GiB
and 20 s, a header of digits quadratic time, a damaged header is the end. So it reads single
headers here, and this module reads what extends one.
"""

import tarfile
from collections.abc import Iterator
from gzip import GzipFile
from pathlib import PurePosixPath

from node.schema import UnfitError, value_text
from node.validated_text import InsidePath

MOST_BYTES = 64 << 30  # of all files, uncompressed, in what is written
MOST_HEADER = 64 << 10  # bytes of a member's extended header, whose name is the most of it
MOST_END = 1 << 20  # bytes of zeros that end a tar
_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_EXTENDED = (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


class DamagedError(ValueError):
    """A tar that ends too early, or says what no tar does."""


class ForeignError(ValueError):
    """A member that no export holds: neither file nor folder, or with a name that leads out."""


def members(stream: GzipFile, most: int) -> Iterator[tuple[InsidePath, Iterator[bytes] | None]]:
    """Yield each member's name, with its bytes for a file; at the end all of the stream was read.

    Raises DamagedError or ForeignError, also for files of more than `most` bytes together, besides
    what the stream itself raises.
    """
    total = 0
    while any(block := _exactly(stream, _BLOCK)):
        header = _header(block)
        if header.type in _EXTENDED:
            extended = _extended(header, stream)
            header = _header(_exactly(stream, _BLOCK))
            header.name = extended.get("path", header.name)
            header.size = _size(extended.get("size", str(header.size)))
        name = _name(header)
        if header.isdir():
            yield name, None
            continue
        total += header.size
        if total > most:
            raise ForeignError(
                f"its files are larger than {most >> 20:,} MiB; if you trust it, extract it into an"
                " empty folder (tar xf) and name that folder's campaign"
            )
        content = _content(stream, header.size)
        yield name, content
        for _ in content:  # what the reader left
            pass
    # A second block of zeros follows, and what fills a record.
    padding = stream.read(MOST_END + 1)
    if not _BLOCK <= len(padding) <= MOST_END or padding.strip(b"\0"):
        raise DamagedError("it does not end as an archive does")


def _exactly(stream: GzipFile, count: int) -> bytes:
    content = stream.read(count)
    if len(content) < count:
        raise DamagedError("it is cut short")
    return content


def _header(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        raise DamagedError("a header in it is damaged") from None
    header.size = _size(str(header.size))
    return header


def _size(digits: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise DamagedError("a size in it is not one of a file")
    return int(digits)


def _content(stream: GzipFile, size: int) -> Iterator[bytes]:
    bytes_left = size
    while bytes_left:
        chunk = _exactly(stream, min(bytes_left, _CHUNK))
        bytes_left -= len(chunk)
        yield chunk
    _exactly(stream, -size % _BLOCK)


def _extended(header: tarfile.TarInfo, stream: GzipFile) -> dict[str, str]:
    """Return what an extended header says of the member that follows: `path`, `size`."""
    if header.size > MOST_HEADER:
        raise ForeignError(f"a header in it has {header.size} bytes")
    content = b"".join(_content(stream, header.size))
    if header.type == tarfile.GNUTYPE_LONGNAME:
        return {"path": content.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    fields, begin = {}, 0
    while begin < len(content):
        # A record is "LENGTH KEY=VALUE\n", whose length counts all of it.
        digits = content[begin : begin + 6].partition(b" ")[0]
        end = begin + (int(digits) if digits.isdigit() else 0)
        key, equals, value = content[begin + len(digits) + 1 : end].partition(b"=")
        if not equals or end > len(content) or value[-1:] != b"\n":
            raise DamagedError("a header in it is damaged")
        fields[key.decode("utf-8", "replace")] = value[:-1].decode("utf-8", "surrogateescape")
        begin = end
    if any(key.startswith("GNU.sparse") for key in fields):
        raise ForeignError("a file in it is not a plain file")
    return fields


def _name(header: tarfile.TarInfo) -> InsidePath:
    if header.type not in _PLAIN and not header.isdir():
        raise ForeignError(f"{value_text(header.name)} in it is not a plain file")
    try:
        return InsidePath(str(PurePosixPath(header.name)))
    except UnfitError:
        raise ForeignError(f"it holds {value_text(header.name)}, outside its own folder") from None
