"""Archives of a campaign made wrong: their bytes, what gzip holds, and members that attack.

What is damaged anywhere behind the name in gzip's header is refused, or gives the very same table.
Members named by an attacker write nothing outside of the reader's own folder.
"""

import gzip
import io
import json
import random
import tarfile
import tempfile
from functools import cached_property
from pathlib import Path

from tests.fuzz import campaign
from tests.fuzz.case import FindingError, said
from tests.fuzz.mutation import BYTES, TEXTS, mutated, mutated_json, some

BITS = b"bits\n"  # the case is an export with a few bytes changed
TYPES = (
    *(tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE),
    *(tarfile.CHRTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, b"\x00", b"Z"),
)


class Archives:
    """What `export` wrote, and what it would never write."""

    name = "archives"
    share = 10

    @cached_property
    def export(self) -> bytes:
        """The campaign's archive."""
        with tempfile.TemporaryDirectory() as name:
            runs = Path(name) / "runs"
            campaign.lay_out(runs)
            target = runs / "x.tar.gz"
            said(["export", campaign.NAME, "--runs", str(runs), "-o", str(target)])
            return target.read_bytes()

    @cached_property
    def plain(self) -> bytes:
        """The tar in it."""
        return gzip.decompress(self.export)

    def make(self, chance: random.Random) -> bytes:
        """An archive."""
        what = chance.random()
        if what < 0.35:
            data = bytearray(self.export)
            for _ in range(chance.choice((1, 1, 2, 8))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            return BITS + bytes(data)
        if what < 0.5:
            return mutated(self.export, chance)
        if what < 0.7:
            return gzip.compress(mutated(self.plain, chance), 1, mtime=0)
        return gzip.compress(members(chance), 1, mtime=0)

    def judge(self, data: bytes, folder: Path) -> None:
        """`collect` reads it."""
        bits = data.startswith(BITS)
        code, text = collected(data[len(BITS) :] if bits else data, folder)
        if bits and code == 0 and text != collected(self.export, folder)[1]:
            raise FindingError("a damaged archive gives another table")


def collected(data: bytes, folder: Path) -> tuple[int, str]:
    """The table of an archive; its exit code and text."""
    path = folder / "x.tar.gz"
    path.write_bytes(data)
    answer = said(["collect", "--campaign", str(path), "--runs", str(folder), "--format", "json"])
    return answer.code, answer.out


def members(chance: random.Random) -> bytes:
    """A tar with the campaign's files and some that attack, or with a file made wrong."""
    out = io.BytesIO()
    files = dict(campaign.files())
    if chance.random() < 0.5:
        name = chance.choice([name for name in files if name.endswith(".json")])
        files[name] = mutated_json(json.loads(files[name]), chance)
    style = chance.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=out, mode="w", format=style) as archive:
        for name, content in files.items():
            add(archive, tarfile.TarInfo(name), content)
            if chance.random() < 0.05:
                add(archive, odd_member(chance, name), some(chance, BYTES))
    return out.getvalue()


def add(archive: tarfile.TarFile, member: tarfile.TarInfo, content: bytes) -> None:
    """One member with its content; one that tarfile does not write is left out."""
    member.size = len(content)
    try:
        archive.addfile(member, io.BytesIO(content))
    except (ValueError, UnicodeError):
        return


def odd_member(chance: random.Random, near: str) -> tarfile.TarInfo:
    """One that `export` would not write."""
    names = (near, *TEXTS, f"{campaign.NAME}/{chance.choice(TEXTS)}", f"../{near}", f"/{near}")
    member = tarfile.TarInfo(chance.choice(names))
    member.type = chance.choice(TYPES)
    member.linkname = chance.choice(TEXTS)
    member.mode = chance.choice((0o644, 0, 0o7777))
    member.mtime = chance.choice((0, -1, 2**40))
    if chance.random() < 0.2:
        member.pax_headers = {"path": chance.choice(TEXTS), "size": chance.choice(TEXTS)}
    return member
