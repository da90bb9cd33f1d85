"""A campaign as one archive: all evidence, the matrix, today's tables; never a secret. Names of
hosts and people are taken out on request.
"""

import contextlib
import getpass
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from node.files import open_plain, read_start
from node.schema import MOST_DEPTH, MOST_ITEMS, Plain
from node.supervisor.names import is_trace
from runner.archive import archive
from runner.archive.redact import Redaction
from runner.base.errors import UserError
from runner.base.masking import Masks
from runner.base.text import blocks
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.packed import MOST_BYTES as MOST
from runner.folder.packed import nodes_of, parts_of, read_part
from runner.folder.stored import UnreadableError, load
from runner.logs.decoding import whole_lines
from runner.report.formats import render
from runner.results.arrivals import moved
from runner.systems.common.registry import load_system, system_names
from runner.tables.campaign_document import CampaignDocument
from runner.tables.campaign_reading import read_campaign

TABLES = "tables"  # in the archive: what `collect` makes of it, for a reader without TrainBench
_NAMES = {"table.md": "markdown", "table.csv": "csv", "table.json": "json", "report.html": "html"}


@dataclass(frozen=True)
class Gathered:
    """What an archive of a campaign holds: `files` by their names in it, and the document.

    `campaign` is the one that is shown: a copy without secrets, and without names where it is
    redacted. `folder` is for more files, as long as the block lasts.
    """

    campaign: Campaign
    document: CampaignDocument
    files: Mapping[str, Path]
    folder: Path


@contextlib.contextmanager
def gathered(campaign: Campaign, *, redact: bool) -> Iterator[Gathered]:
    """Gather it. Raises UserError where redaction would change a figure."""
    with tempfile.TemporaryDirectory(prefix="trainbench-") as folder:
        home = Path(folder)
        readable = _copied(campaign, home / "copy", redact=redact)
        document = read_campaign(
            readable, readable.path / TABLES, copy_of=campaign, shape="flat", evidence=True
        )
        if redact:
            _same_figures(read_campaign(campaign, campaign.path), document)
        tables = _tables(document, readable.settings.matrix, home / TABLES)
        yield Gathered(readable, document, {**archive.files(readable.path), **tables}, home)


def export(campaign: Campaign, target: Path, *, redact: bool) -> None:
    """Write `target`, a .tar.gz. Raises UserError where redaction would change a figure."""
    with gathered(campaign, redact=redact) as content:
        archive.pack(content.campaign.name, content.files, target)


def _tables(document: CampaignDocument, matrix: str, folder: Path) -> dict[str, Path]:
    """Write what is read from the evidence today; return the files, name in the archive to path."""
    folder.mkdir()
    texts = {name: render(document, format) for name, format in _NAMES.items()}
    paths = {}
    for name, text in {**texts, "matrix.yaml": matrix}.items():
        paths[f"{TABLES}/{name}"] = folder / name
        (folder / name).write_text(text, encoding="utf-8")
    return paths


def _same_figures(before: CampaignDocument, after: CampaignDocument) -> None:
    """Refuse a redaction that took a word for a name which a parser needs."""
    for ours, theirs in zip(before.records, after.records, strict=True):
        if ours.measurement.intervals != theirs.measurement.intervals:
            raise UserError(
                f"redaction would change what the log of cell {ours.cell} says, because a host or"
                " user is named like a word in it; export without --redact and redact by hand"
            )


# --- a copy without secrets, and without names --------------------------------------------------


def _copied(campaign: Campaign, folder: Path, *, redact: bool) -> Campaign:
    """Return a copy of the campaign without secrets, in `folder`: itself where it holds none.

    With `redact` the copy is without names, too; TensorBoard's files, which name the host that
    wrote them, and traces are left out. An archive of nodes becomes the files that it holds.
    """
    words = _redaction(campaign) if redact else Masks()
    files = archive.files(campaign.path)
    for name, path in files.items():
        for _, content in _contents(name, path):
            words.learn(content)
    changed = {
        name
        for name, path in files.items()
        if any(redact or words.content(content) != content for _, content in _contents(name, path))
    }
    if not redact and not changed:
        return campaign
    home = folder / words.text(campaign.name) if redact else folder / campaign.name

    def copy_of(name: str) -> Path:
        parts = name.split("/")
        copy = home.joinpath(*(map(words.name, parts) if isinstance(words, Redaction) else parts))
        copy.parent.mkdir(parents=True, exist_ok=True)
        return copy

    for name, path in files.items():
        if name in changed:
            for part, chunks in _fresh(name, path, words):
                with copy_of(part).open("wb") as stream:
                    stream.writelines(chunks)
        elif not redact:
            shutil.copyfile(path, copy_of(name))
    for name in changed:  # as their logs' lines have other lengths
        path = files[name]
        if path.name == names.LOG and (text := read_part(path.parent, names.ARRIVALS)):
            logs = (b"".join(blocks(each)) for each in (path, copy_of(name)))
            copy_of(name).with_name(names.ARRIVALS).write_bytes(moved(text, *logs))
    copy = Campaign(home)
    if redact:
        copy.write(replace(copy.settings, redacted=True))
    return copy


def _redaction(campaign: Campaign) -> Redaction:
    systems = map(load_system, system_names())
    reserved = {word for s in systems for word in (s.name, *(item.name for item in s.parameters))}
    redaction = Redaction([], [_user()], reserved)
    redaction.learn({"HOME": os.path.expanduser("~")})
    for name, host in _hosts(campaign).items():
        redaction.host(name, host)
    return redaction


def _contents(name: str, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield what is read of a file, with its name: JSON, or text of whole lines; of an archive of
    nodes each file that it holds.
    """
    for part, content in _packed(name, path):
        yield part, content.decode("utf-8", "surrogateescape")
    # No events with checksums, no packed ones.
    if path.name == names.PACKED or "tfevents" in path.name or is_trace(name.split("/", 5)[-1]):
        return
    yield name, ""  # of an empty one, too
    whole = _json(path)
    for text in _texts(path) if whole is None else [whole]:
        yield name, text


def _fresh(
    name: str, path: Path, words: Masks | Redaction
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield each file that one becomes, with its new bytes."""
    for part, content in _packed(name, path):
        yield part, words.blocks([content])
    if path.name != names.PACKED:
        whole = _json(path)
        fresh = json.dumps(words.content(whole), indent=1).encode() + b"\n"
        yield name, words.blocks(blocks(path)) if whole is None else [fresh]


def _packed(name: str, path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files in an archive of nodes, by the names that they would have unpacked."""
    above = PurePosixPath(name).parent
    if path.name != names.PACKED:
        return
    if above.parent.name == names.NODES:
        nodes: Iterable[tuple[PurePosixPath, bytes]] = [(above, read_start(path, MOST) or b"")]
    else:
        nodes = ((above / names.NODES / node, packed) for node, packed in nodes_of(path))
    for folder, packed in nodes:
        for file_name, content in parts_of(packed).items():
            yield f"{folder}/{file_name}", content


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _hosts(campaign: Campaign) -> dict[str, str]:
    """Return every name that a host has in the campaign, to its name in the inventory; in rank
    order.
    """
    names_of_hosts: dict[str, str] = {}
    for path in sorted(campaign.path.glob(f"{names.ATTEMPTS}/{names.RUN}")):
        with contextlib.suppress(UnreadableError):
            names_of_hosts |= {host: host for host in RunFolder(path.parent).hosts.values()}
    for host, inspected in campaign.inspections().items():
        hostname = inspected.hostname or host
        for name in (host, hostname, hostname.split(".")[0]):
            names_of_hosts.setdefault(name, host)
    return names_of_hosts


def _json(path: Path) -> Any:
    """Return a file's content, if it is JSON; None otherwise: what is too large is a log."""
    with open_plain(path) as stream:
        if stream.read(1) not in (b"{", b"["):
            return None
    try:
        return load(path, Plain(MOST_DEPTH, MOST_ITEMS, lines=True))
    except UnreadableError:
        return None


def _texts(path: Path) -> Iterable[str]:
    """Yield a file as text of whole lines; bytes that are not text come back as they were."""
    for text in whole_lines(blocks(path)):
        yield text.decode("utf-8", "surrogateescape")
