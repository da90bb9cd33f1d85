"""Campaigns as one file: written so that the same campaign gives the same bytes, read with care.

An archive comes from somebody else: only plain files are taken, each inside the one folder that
the archive names, none twice, and no more than MOST_FILES and MOST_BYTES of them.
"""

import gzip
import io
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign, campaigns, find_campaign

MOST_FILES = 1_000_000
MOST_BYTES = 64 << 30  # of all files, uncompressed
MOST_AT_ONCE = 16 << 20  # bytes of a header: an honest one has some hundred
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Opened:
    """A campaign that can be read, and where its folder is (or would be, once extracted)."""

    campaign: Campaign
    shown: Path


@contextmanager
def opened(runs: Path, name: str | None) -> Iterator[Opened]:
    """Open the campaign of that name under `runs`, in that folder, or in that archive; None: the
    newest.

    Raises UserError where there is none.
    """
    path = Path(name) if name else None
    if path is None or name in {campaign.name for campaign in campaigns(runs)}:
        campaign = find_campaign(runs, name)
        yield Opened(campaign, campaign.path)
    elif path.is_dir():
        campaign = Campaign(path.resolve())
        if campaign.settings is None:
            raise UserError(f"{path} holds no campaign.json that this version can read")
        yield Opened(campaign, campaign.path)
    elif path.is_file():
        with tempfile.TemporaryDirectory(prefix="trainbench-") as folder:
            home = unpack(path, Path(folder))
            yield Opened(Campaign(home), path.resolve().parent / home.name)
    elif "/" in str(name) or str(name).endswith(".gz"):
        raise UserError(f"there is no file or folder {name}")
    else:
        yield Opened(find_campaign(runs, name), runs)  # raises, and names the nearest


def pack(root: str, named: Mapping[str, Path], target: Path) -> None:
    """Write `target`, a .tar.gz, with the files `named` (name to path) in a folder `root`.

    They stand in the order of their names; times, owners and the machine leave no trace, so that
    the same files give the same bytes. Only its owner may read it, as the campaign's folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.tmp")
    try:
        with (
            open(fresh, "wb", opener=_private) as raw,  # Path.open has no opener
            gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name in sorted(named):
                _add(archive, named[name], f"{root}/{name}")
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def files(folder: Path) -> dict[str, Path]:
    """Return a campaign's plain files, name to path: no lock, nothing half written, no link."""
    paths = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if hidden or path.name in (names.LOCK, "halt.control") or path.is_symlink():
            continue
        if path.is_file():
            paths[inside.as_posix()] = path
    return dict(sorted(paths.items()))


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    with path.open("rb") as stream:
        member = tarfile.TarInfo(name)
        member.size = os.fstat(stream.fileno()).st_size  # a log that grows is cut here
        member.mode = 0o755 if path.suffix == ".sh" else 0o644
        archive.addfile(member, stream)


def unpack(path: Path, folder: Path) -> Path:
    """Extract an export into `folder`; its campaign's folder. Any other file is a UserError."""
    try:
        with gzip.GzipFile(path, "rb") as stream, _tar(stream) as archive:
            roots = {_extract(member, archive, folder) for member in _members(archive, path)}
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, ValueError) as error:
        why = str(error) or "it is cut short"
        raise UserError(
            f"{path} is not an export of a campaign ({why}); `python -m runner export` writes one"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be extracted: {error.strerror}") from None
    homes = [folder / root for root in roots if (folder / root / names.CAMPAIGN).is_file()]
    if len(roots) != 1 or not homes or Campaign(homes[0]).settings is None:
        raise UserError(f"{path} holds no campaign.json that this version can read")
    return homes[0]


class _Guarded(io.RawIOBase):
    """A stream of which nobody reads more than MOST_AT_ONCE at once, or MOST_BYTES in all."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > MOST_AT_ONCE or self._stream.tell() > MOST_BYTES:
            raise tarfile.ReadError("it is too large")
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


def _tar(stream: gzip.GzipFile) -> tarfile.TarFile:
    return tarfile.open(fileobj=_Guarded(stream), mode="r:")


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the archive's files, as long as they are ones that an export would hold."""
    count = size = 0
    for member in archive:
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts or not name.parts or "\0" in member.name:
            raise UserError(f"{path} is refused: it holds {member.name!r}, outside its own folder")
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise UserError(f"{path} is refused: {member.name!r} in it is not a plain file")
        count, size = count + 1, size + member.size
        if count > MOST_FILES or size > MOST_BYTES:
            raise UserError(
                f"{path} is refused: it holds more than {MOST_FILES} files or"
                f" {MOST_BYTES >> 30} GiB"
            )
        yield member


def _extract(member: tarfile.TarInfo, archive: tarfile.TarFile, folder: Path) -> str:
    """Write one file; the first folder of its name."""
    parts = PurePosixPath(member.name).parts
    target = folder.joinpath(*parts)
    source = archive.extractfile(member)
    if source is None:
        raise tarfile.ReadError(f"{member.name} cannot be read")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("xb") as stream:
            shutil.copyfileobj(source, stream, _CHUNK)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise tarfile.ReadError(f"{member.name} is in it twice") from None
    if target.stat().st_size != member.size:
        raise tarfile.ReadError(f"{member.name} is cut short")
    return parts[0]
