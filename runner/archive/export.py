"""A campaign as one archive: all evidence, the matrix, today's tables; never a secret. Names of
hosts and people are taken out on request.
"""

import contextlib
import getpass
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from runner.document.campaign_document import CampaignDocument
from runner.document.campaign_reading import read_campaign
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.packed import MOST_BYTES as MOST
from runner.folder.packed import nodes_of, parts_of, read_part
from runner.folder.stored import UnreadableError, load
from runner.load.arrivals import moved
from runner.logs.decoding import whole_lines
from runner.report.formats import render
from runner.systems.common.registry import load_system, system_names

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
        readable = _redacted(campaign, home / "redacted") if redact else _masked(campaign, home)
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


# --- secrets --------------------------------------------------------------------------------------


def _masked(campaign: Campaign, folder: Path) -> Campaign:
    """Return the campaign, or where it holds secrets a copy without them, in `folder`.

    In the copy an archive of nodes with a secret has become the files that it holds.
    """
    files, masks, home = archive.files(campaign.path), Masks(), folder / campaign.name
    for name, path in files.items():
        for _, content in _packed(name, path):
            masks.learn(content.decode("utf-8", "surrogateescape"))
        if _is_text(name):
            whole = _json(path)
            for text in _texts(path) if whole is None else [whole]:
                masks.learn(text)
    fresh = {name: dict(_without_secrets(name, path, masks)) for name, path in files.items()}
    if not any(fresh.values()):
        return campaign
    for name, path in files.items():
        for part in fresh[name] or (name,):
            copy = home / part
            copy.parent.mkdir(parents=True, exist_ok=True)
            if part in fresh[name]:
                copy.write_bytes(fresh[name][part])
            else:
                shutil.copyfile(path, copy)
    _move_arrivals(files, home.joinpath)
    return Campaign(home)


def _without_secrets(name: str, path: Path, masks: Masks) -> Iterator[tuple[str, bytes]]:
    """Yield what a file becomes, name and content; nothing where it holds no secret."""
    parts = dict(_packed(name, path))
    masked = {part: b"".join(masks.blocks([content])) for part, content in parts.items()}
    if masked != parts:
        yield from masked.items()
    elif _is_text(name) and (content := _json(path)) is not None:
        if (fresh := masks.content(content)) != content:
            yield name, json.dumps(fresh, indent=1).encode() + b"\n"
    elif _is_text(name) and any(masks.text(text) != text for text in _texts(path)):
        yield name, b"".join(masks.blocks(blocks(path)))


def _move_arrivals(files: Mapping[str, Path], copy_of: Callable[[str], Path]) -> None:
    """Move the arrivals of each log with its lines, where a copy's have other lengths."""
    for name, path in files.items():
        if path.name == names.LOG and (text := read_part(path.parent, names.ARRIVALS)):
            logs = (b"".join(blocks(each)) for each in (path, copy_of(name)))
            copy_of(name).with_name(names.ARRIVALS).write_bytes(moved(text, *logs))


def _is_text(name: str) -> bool:
    """Return whether a file may be read as text: no events with checksums, no packed ones."""
    inside = name.split("/")
    packed = inside[-1] == names.PACKED or is_trace("/".join(inside[5:]))
    return "tfevents" not in inside[-1] and not packed


# --- redaction ------------------------------------------------------------------------------------


def _redacted(campaign: Campaign, folder: Path) -> Campaign:
    """Write a copy of the campaign without names, in a folder of its own under `folder`."""
    # TensorBoard's files name the host that wrote them.
    every = archive.files(campaign.path)
    files = {name: path for name, path in every.items() if _is_text(name)}
    hosts = _hosts(campaign)
    systems = map(load_system, system_names())
    reserved = {word for s in systems for word in (s.name, *(item.name for item in s.parameters))}
    redaction = Redaction([], [_user()], reserved)
    redaction.learn_content({"HOME": os.path.expanduser("~")})
    for name, host in hosts.items():
        redaction.host(name, host)
    for path in files.values():
        content = _json(path)
        if content is not None:
            redaction.learn_content(content)
        else:
            for text in _texts(path):
                redaction.learn(text)
    home = folder / redaction.text(campaign.name)

    def copy_of_file(name: str) -> Path:
        copy = home.joinpath(*map(redaction.name, name.split("/")))
        copy.parent.mkdir(parents=True, exist_ok=True)
        return copy

    packed = (_packed(name, path) for name, path in every.items())
    for name, content_bytes in itertools.chain.from_iterable(packed):
        text = content_bytes.decode("utf-8", "surrogateescape")
        copy_of_file(name).write_text(redaction.text(text), "utf-8", "surrogateescape", "")
    for name, path in files.items():
        copy = copy_of_file(name)
        content = _json(path)
        with copy.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            if content is not None:
                stream.write(json.dumps(redaction.content(content), indent=1) + "\n")
            else:
                stream.writelines(map(redaction.text, _texts(path)))
    _move_arrivals(files, copy_of_file)
    copy_of = Campaign(home)
    copy_of.write(replace(copy_of.settings, redacted=True))
    return copy_of


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
