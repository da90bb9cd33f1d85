"""Campaigns as one file: written so that the same campaign gives the same bytes."""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from node.files import open_plain
from node.printable import printable
from node.schema import UnfitError
from node.validated_text import InsidePath
from runner.archive.extraction import MANIFEST, MOST_FILES, MOST_PARTS, unpack
from runner.archive.tar import MOST_BYTES
from runner.base.errors import UserError
from runner.base.files import atomic_file
from runner.folder import names
from runner.folder.campaign import Campaign, campaigns, find_campaign


@dataclass(frozen=True)
class Opened:
    """A campaign that can be read, and where its folder is (or would be, once extracted)."""

    campaign: Campaign
    shown: Path


@contextmanager
def opened(runs: Path, name: str | None) -> Iterator[Opened]:
    """Open the campaign of that name under `runs`, in that folder, or in that archive; None: the
    newest.

    Raises UserError if it is missing.
    """
    path = Path(name) if name else None
    if path is None or name in {campaign.name for campaign in campaigns(runs)}:
        campaign = find_campaign(runs, name)
        yield Opened(campaign, campaign.path)
    elif path.is_dir() and ("/" in str(name) or (path / names.CAMPAIGN).exists()):
        campaign = Campaign(path.resolve())
        yield Opened(campaign, campaign.path)
    elif path.is_file():
        with tempfile.TemporaryDirectory(prefix="trainbench-") as folder:
            home = unpack(path, Path(folder))
            yield Opened(Campaign(home), path.resolve().parent / home.name)
    elif "/" in str(name) or str(name).endswith(".gz"):
        raise UserError(f"there is no file or folder {name}")
    else:
        yield Opened(find_campaign(runs, name), runs)  # raises, and names the nearest


def pack(root: str, contents: Mapping[str, Path], target: Path) -> None:
    """Write `target`, a .tar.gz, with the files `contents` (name to path) in a folder `root`.

    They are in the order of their names, with a manifest of their checksums behind them; times,
    owners and the machine leave no trace, so that the same files give the same bytes. Only its
    owner may read it, as the campaign's folder. Raises UserError for more than can be read again.
    """
    folders = {parent for name in contents for parent in PurePosixPath(name).parents}
    if len(contents) + len(folders) >= MOST_FILES:
        raise UserError(f"{root} has more than {MOST_FILES} files and folders, too many to export")
    try:
        inside = {InsidePath(f"{root}/{name}"): path for name, path in sorted(contents.items())}
    except UnfitError as error:
        raise UserError(f"{printable(root)} cannot be exported: a file in it {error}") from None
    with (
        atomic_file(target, 0o600) as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        sums, total = {}, 0
        for name, path in inside.items():
            with open_plain(path) as content:
                size = os.fstat(content.fileno()).st_size  # a log that grows is cut here
                total += size
                if total > MOST_BYTES:
                    raise _too_large(name)
                mode = 0o755 if path.suffix == ".sh" else 0o644
                sums[name.partition("/")[2]] = _add(archive, name, content, size, mode)
        manifest = json.dumps({"sha256": sums}, indent=1).encode()
        _add(archive, f"{root}/{MANIFEST}", io.BytesIO(manifest), len(manifest), 0o644)


def files(folder: Path) -> dict[str, Path]:
    """Return a campaign's plain files, name to path: no lock, nothing half written, no link, and
    none that no archive could hold.
    """
    return {name: path for name, path in _plain(folder).items() if _fits(folder.name, name)}


def unfit_files(folder: Path) -> list[str]:
    """List the plain files whose names are too long for an archive, or in too many folders."""
    return [name for name in _plain(folder) if not _fits(folder.name, name)]


def _fits(root: str, name: str) -> bool:
    # A copy without names may have a longer one for a host, or a user.
    return len(name) + len(root) < InsidePath.most * 9 // 10 and name.count("/") < MOST_PARTS - 1


def _plain(folder: Path) -> dict[str, Path]:
    paths = {}
    for path in folder.rglob("*"):
        inside = path.relative_to(folder)
        hidden = any(folder_name.startswith(".") for folder_name in inside.parts)
        if hidden or path.name in (names.LOCK, "halt.control") or path.is_symlink():
            continue
        if path.is_file() and inside != Path(MANIFEST):
            paths[inside.as_posix()] = path
    return dict(sorted(paths.items()))


def _too_large(name: str) -> UserError:
    return UserError(
        f"with {printable(name)} there are more than {MOST_BYTES >> 30} GiB, more than an export"
        " can have; cut that file"
    )


class _Hashed:
    """A stream whose checksum is kept of what is read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self.digest.update(chunk)
        return chunk


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int, mode: int) -> str:
    """Add one file; its checksum."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode
    hashed = _Hashed(content)
    archive.addfile(member, cast("IO[bytes]", hashed))
    return hashed.digest.hexdigest()
