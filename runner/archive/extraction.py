"""An archive back into a folder, verified whole: what is damaged anywhere is refused.

An archive comes from somebody else: only plain files are taken, each inside the one folder that
the archive names, none twice, and no more than limits allow. gzip's checksum is reached, for all is
read to its end, and each file is what the archive's manifest says; one of before has no manifest.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

from node.printable import printable
from node.program_output import os_error_words
from node.schema import Fields, Mapped, UnfitError
from node.validated_text import InsidePath, Sha256
from runner.archive.tar import DamagedError, ForeignError, members
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import SETTINGS
from runner.folder.stored import load

MANIFEST = "manifest.json"  # in an archive: each file's checksum
MOST_FILES = 100_000  # of an archive, folders counted
MOST_PARTS = 24  # of a member's name: folders within each other
# Bytes that an archive's files may have: so many for each of its own, but these at least, at most.
MOST_FOR_EACH, LEAST_BYTES, MOST_BYTES = 100, 64 << 20, 4 << 30


def unpack(path: Path, folder: Path) -> Path:
    """Extract an export into `folder`; its campaign's folder. Any other file is a UserError."""
    where = printable(str(path))
    try:
        sums = _extract(path, folder)
        roots = {name.partition("/")[0] for name in sums}
        homes = [folder / root for root in roots if f"{root}/{names.CAMPAIGN}" in sums]
        if len(roots) == 1 and homes:
            _verify(homes[0], sums, f"{where}: {MANIFEST}")
    except ForeignError as error:
        raise UserError(f"{where} is refused: {error}") from None
    except (DamagedError, UnfitError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        why = printable(str(error)) or "it is cut short"
        raise UserError(
            f"{where} is not a whole export of a campaign ({why});"
            " `python -m runner export` writes one"
        ) from None
    except OSError as error:
        why = os_error_words(error, str(folder))
        raise UserError(f"{where} cannot be extracted: {why}") from None
    if len(roots) != 1 or not homes:
        raise UserError(f"{where} holds no campaign.json, or several")
    load(homes[0] / names.CAMPAIGN, SETTINGS, f"{where}: {names.CAMPAIGN}")
    return homes[0]


def _extract(path: Path, folder: Path) -> dict[str, str]:
    """Write the archive's files; return each one's name, with its checksum."""
    sums: dict[str, str] = {}
    folders: set[Path] = set()
    most = min(max(MOST_FOR_EACH * path.stat().st_size, LEAST_BYTES), MOST_BYTES)
    with gzip.GzipFile(path, "rb") as stream:
        for count, (name, content) in enumerate(members(stream, most), 1):
            depth = name.count("/")
            if count + len(folders) > MOST_FILES or depth >= MOST_PARTS:
                raise ForeignError(
                    f"it holds more than {MOST_FILES} files and folders, or more than {MOST_PARTS}"
                    " folders within each other"
                )
            if content is None:
                continue
            target = folder / name
            try:
                if target.parent not in folders:
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    folders.update(target.parents[:depth])
                sums[name] = _write(target, content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise DamagedError(f"{printable(name)} is in it twice") from None
    return sums


def _write(target: Path, content: Iterable[bytes]) -> str:
    """Write one file; its checksum."""
    digest = hashlib.sha256()
    with target.open("xb") as stream:
        for chunk in content:
            digest.update(chunk)
            stream.write(chunk)
    return digest.hexdigest()


def _verify(home: Path, sums: dict[str, str], where: str) -> None:
    """Compare the files with the archive's own manifest, which goes. Raises DamagedError."""
    kind = Fields({"sha256": Mapped(InsidePath, Sha256, MOST_FILES)})
    manifest = load(home / MANIFEST, kind, where)
    if manifest is None:
        return
    (home / MANIFEST).unlink()
    there = {name.partition("/")[2]: digest for name, digest in sums.items()}
    del there[MANIFEST]
    expected = manifest["sha256"]
    for name in sorted({*there, *expected}):
        if there.get(name) != expected.get(name):
            raise DamagedError(f"{printable(name)} in it is not what was exported")
