"""A campaign or an export, opened and read whole; what stays of it is small (cell_points.py)."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner.archive import archive
from runner.base.errors import UserError
from runner.document import machine_document
from runner.document.campaign_document import CampaignDocument
from runner.document.campaign_reading import read_campaign
from runner.folder.campaign import Campaign
from runner.history.cell_points import (
    IMPORTED,
    NOT_PUBLISHABLE,
    REDACTED,
    CampaignPoints,
    LeftOut,
    Point,
    order,
)
from runner.history.identity import UNKNOWN_MACHINE, cell_key, facts_of, machine_of, safe_name
from runner.history.workers import parallel_map
from runner.tables.row import Row
from runner.terms.settings import Settings


@dataclass(frozen=True)
class OpenCampaign:
    """A campaign while its files can be read; its document has logs as paths in its folder."""

    source: Path
    campaign: Campaign
    document: CampaignDocument

    @property
    def name(self) -> str:
        """The campaign's name, printable."""
        return printable(self.campaign.name)


@contextmanager
def opened(source: Path) -> Iterator[OpenCampaign]:
    """Open a campaign's folder, or an export in a temporary one. Raises UserError."""
    with archive.opened(source, str(source)) as content:
        campaign = content.campaign
        _refuse_links(campaign.path)
        document = read_campaign(campaign, campaign.path)
        yield OpenCampaign(source, campaign, document)


def _refuse_links(campaign: Path) -> None:
    """Refuse a campaign with a link in it, which may show a file of somebody else's: export leaves
    links out, too.
    """
    for folder, folders, files in os.walk(campaign):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                inside = printable(path.relative_to(campaign).as_posix())
                raise UserError(f"{inside} is a link; put the file itself there")


def points_of(read: OpenCampaign) -> CampaignPoints:
    """Return what stays of an open campaign."""
    settings, table = read.campaign.settings, read.document.rows
    machines = _machines(table)
    keys = _keys(table, machines)
    written = machine_document.values(read.document)["rows"]
    name = read.name
    digest = hashlib.sha256(json.dumps([name, written]).encode()).hexdigest()
    began = [run.began for run in read.document.records if run.began is not None]
    ended = [run.began + run.wall_s for run in read.document.records if run.began is not None]
    return CampaignPoints(
        id=safe_name(name, name, settings.inventory_digest, repr(settings.created_at)),
        name=name,
        path=read.source,
        source=printable(read.source.name),
        digest=digest,
        began=min(began, default=None),
        wall_s=max(ended) - min(began) if began else 0.0,
        machines=tuple(dict.fromkeys(machines)),
        points=tuple(
            _point(*item, settings) for item in zip(table, written, keys, machines, strict=True)
        ),
        live=read.document.live,
        imported=settings.imported,
        redacted=settings.redacted,
    )


def _machines(table: Sequence[Row]) -> list[str]:
    """Return each row's kind of machine. What never began has none of its own: where all others of
    the campaign have the same, it would have been that.
    """
    machines = [machine_of(row.record) for row in table]
    known_machines = {machine for machine in machines if machine != UNKNOWN_MACHINE}
    fallback = known_machines.pop() if len(known_machines) == 1 else UNKNOWN_MACHINE
    return [fallback if machine == UNKNOWN_MACHINE else machine for machine in machines]


def _keys(table: Sequence[Row], machines: Sequence[str]) -> list[str]:
    """Return each row's key; equal ones get their cells' names."""
    rows_on = list(zip(table, machines, strict=True))
    count = Counter(cell_key(row, machine) for row, machine in rows_on)
    return [
        cell_key(row, machine, with_name=row.record.imported or count[cell_key(row, machine)] > 1)
        for row, machine in rows_on
    ]


def _point(
    row: Row, values: dict[str, object], key: str, machine: str, settings: Settings
) -> Point:
    record = row.record
    marks = {
        IMPORTED: settings.imported or any(run.imported for run in row.records),
        REDACTED: settings.redacted,
        NOT_PUBLISHABLE: row.finished and not row.publishable,
    }
    began = [run.began for run in row.records if run.began is not None]
    return Point(
        campaign=printable(record.campaign),
        key=key,
        machine=machine,
        row=values,
        facts=facts_of(row, names=not settings.redacted),
        unofficial=tuple(mark for mark, holds in marks.items() if holds),
        began=min(began, default=None),
    )


def read_all(paths: Sequence[Path]) -> tuple[list[CampaignPoints], list[LeftOut]]:
    """Read each; those that cannot be read, and copies of others, are left out with the reason."""
    return sorted_out(list(zip(paths, parallel_map(read_or_reason, paths), strict=True)))


def read_or_reason(source: Path) -> CampaignPoints | str:
    """Read one; a sentence where it cannot be."""
    try:
        with opened(source) as read:
            return points_of(read)
    except Exception as error:  # whatever is in one campaign, the list has the others
        return why_unread(error)


def why_unread(error: Exception) -> str:
    """Say why a campaign cannot be read."""
    if isinstance(error, UserError):
        return str(error)
    message = error.strerror if isinstance(error, OSError) else str(error)
    return f"it cannot be read: {printable(message or '')[:200] or type(error).__name__}"


def sorted_out(
    read: Sequence[tuple[Path, CampaignPoints | str]],
) -> tuple[list[CampaignPoints], list[LeftOut]]:
    """Return the campaigns as they followed each other, each once, and what was left out."""
    campaigns: dict[str, CampaignPoints] = {}
    left_out = []
    for source, outcome in read:
        name = printable(source.name)
        if isinstance(outcome, str):
            left_out.append(LeftOut(name, printable(_without_folder(outcome, source))))
            continue
        earlier = campaigns.setdefault(outcome.id, outcome)
        if earlier is not outcome:
            less, more = (
                (earlier, outcome) if _ended(outcome) > _ended(earlier) else (outcome, earlier)
            )
            campaigns[outcome.id] = more
            why = f"it is the same campaign as {more.source}, and counts once"
            left_out.append(LeftOut(less.source, why))
    return sorted(campaigns.values(), key=order), left_out


def _ended(campaign: CampaignPoints) -> int:
    return sum(point.finished for point in campaign.points)


def _without_folder(reason: str, source: Path) -> str:
    """Leave out of a sentence where a source lies: that is of the machine that reads it."""
    for folder in (source.resolve().parent, source.parent):
        reason = reason.replace(f"{folder}/", "") if folder != Path("/") else reason
    return reason
