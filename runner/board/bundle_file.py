"""A bundle's file, before and while it is open: size, whole, and what `publish` writes.

Nothing of a bundle is executed, and nothing is unpacked before its size is known.
"""

import gzip
import hashlib
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner.archive import archive
from runner.archive.extraction import MANIFEST
from runner.archive.tar import DamagedError, ForeignError, members
from runner.base.errors import UserError
from runner.board.refusal import Refusal
from runner.document.campaign_document import CampaignDocument
from runner.document.campaign_reading import read_campaign
from runner.folder import names
from runner.folder.campaign import Campaign

MIB = 1 << 20
MOST_PACKED = 25 * MIB  # as much as GitHub's pages take of a file
MOST_UNPACKED = 512 * MIB
MOST_FILES = 20_000
NEEDED = ("README.md", names.PUBLISHED, MANIFEST, names.CAMPAIGN, "tables/table.json")


class RefusedError(Exception):
    """The bundle is refused before its campaign can be read."""

    def __init__(self, code: str, why: str) -> None:
        self.refusal = Refusal(code, why)
        super().__init__(why)


@dataclass(frozen=True)
class OpenBundle:
    """A bundle while its files can be read; `document` is read from its logs."""

    path: Path
    sha256: str
    campaign: Campaign
    document: CampaignDocument


@contextmanager
def opened(path: Path) -> Iterator[OpenBundle]:
    """Open a bundle. Raises RefusedError, and UserError where there is no such file."""
    digest = _refuse_by_size(path)
    with tempfile.TemporaryDirectory(prefix="trainbench-board-") as folder:
        try:
            with archive.opened(Path(folder), str(path.resolve())) as source:
                campaign = source.campaign
                tables = campaign.path / "tables"
                document = read_campaign(campaign, tables, shape="flat", evidence=True)
                yield OpenBundle(path, digest, campaign, document)
        except UserError as error:
            why = str(error).replace(f"{path.resolve().parent}/", "")
            raise RefusedError("damaged", printable(why)) from None


def _refuse_by_size(path: Path) -> str:
    """Read the archive once, keeping nothing; its SHA-256. Raises RefusedError, UserError."""
    try:
        size, plain = path.stat().st_size, path.is_file()
    except OSError:
        raise UserError(f"there is no file {path}; name bundles that `publish` wrote") from None
    if not plain:  # a FIFO is waited for, a device is read for ever
        raise UserError(f"{path} is not a plain file; name bundles that `publish` wrote")
    if size > MOST_PACKED:
        raise RefusedError(
            "too_large", f"{size / MIB:.1f} MiB; a board takes {MOST_PACKED // MIB} MiB"
        )
    member_names: set[str] = set()
    total = count = 0
    try:
        with gzip.GzipFile(path, "rb") as stream:
            for name, content in members(stream):
                count += 1
                if count > MOST_FILES:
                    raise RefusedError("too_large", f"it has more than {MOST_FILES} files")
                member_names.add(name.partition("/")[2])
                for chunk in content or ():
                    total += len(chunk)
                    if total > MOST_UNPACKED:
                        most = f"it unpacks to more than {MOST_UNPACKED // MIB} MiB"
                        raise RefusedError("too_large", most)
    except (DamagedError, ForeignError, zlib.error, EOFError, OSError) as error:
        raise RefusedError("damaged", printable(str(error)) or "it is cut short") from None
    if missing := [name for name in NEEDED if name not in member_names]:
        raise RefusedError("not_a_bundle", f"{missing[0]} is missing; `publish` writes it")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
