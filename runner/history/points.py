"""Campaigns and exports, read whole; what stays of each is its points.

A *point* is one cell of one campaign: its row as `collect --format json` has it, and what tells it
from other cells (identity.py). The points of one key are a *series*, as campaigns followed.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner.archive import archive
from runner.base.errors import UserError
from runner.figures.measured_cell import MeasuredCell
from runner.folder.campaign import Campaign
from runner.history.identity import UNKNOWN_MACHINE, cell_key, facts_of, machine_of, safe_name
from runner.history.workers import parallel_map
from runner.tables.campaign_reading import read_campaign
from runner.tables.row import PUBLISHABLE, Row, finished

# What is not official.
IMPORTED = "imported"
REDACTED = "redacted"
NOT_PUBLISHABLE = "not publishable"


@dataclass(frozen=True)
class Point:
    """One cell of the campaign with the id `campaign`; `key` is its series'.

    `facts` are what it ran on and its pin, as text. `began` is when its first run did (epoch
    seconds), as far as anybody knows.
    """

    campaign: str
    key: str
    machine: str
    row: Row
    facts: Mapping[str, str]
    unofficial: tuple[str, ...] = ()
    began: float | None = None

    @property
    def cell(self) -> str:
        """The cell's name."""
        return self.row["cell"]


Series = Sequence[Point]


@dataclass(frozen=True)
class CampaignPoints:
    """One campaign: its points, and what holds for all of them.

    `id` is its name among all that are read, of letters that any file system and address can have.
    `path` is its folder or file.
    """

    id: str
    name: str
    path: Path
    began: float | None
    wall_s: float
    points: Series
    live: bool
    marks: tuple[str, ...]

    @property
    def source(self) -> str:
        """The name of its folder or file."""
        return printable(self.path.name)


LeftOut = tuple[str, str]  # the name of a folder or file that is no campaign of the list, and why


def read_all(paths: Sequence[Path]) -> tuple[list[CampaignPoints], list[LeftOut]]:
    """Read each: the campaigns as they followed each other, each once, and what was left out."""
    campaigns: dict[str, CampaignPoints] = {}
    left_out = []
    for source, outcome in zip(paths, parallel_map(_read_or_reason, paths), strict=True):
        if isinstance(outcome, str):
            reason = printable(_without_folder(outcome, source))
            left_out.append((printable(source.name), reason))
            continue
        earlier = campaigns.setdefault(outcome.id, outcome)
        if earlier is not outcome:
            less, more = (
                (earlier, outcome) if _ended(outcome) > _ended(earlier) else (outcome, earlier)
            )
            campaigns[outcome.id] = more
            why = f"it is the same campaign as {more.source}, and counts once"
            left_out.append((less.source, why))
    return sorted(campaigns.values(), key=_order), left_out


def all_series(campaigns: Sequence[CampaignPoints]) -> list[Series]:
    """Make the series of campaigns in their order, each as it first appeared."""
    series: dict[str, list[Point]] = {}
    for campaign in campaigns:
        for point in campaign.points:
            series.setdefault(point.key, []).append(point)
    return list(series.values())


def slug(series: Series) -> str:
    """Return a name for a series, as `--cell` and the JSON have it."""
    return safe_name(series[-1].cell, series[-1].key)


def _order(campaign: CampaignPoints) -> tuple[float, str, str]:
    """Sort by when they began; one that nobody knows when comes last."""
    began = float("inf") if campaign.began is None else campaign.began
    return began, campaign.name, campaign.id


def _ended(campaign: CampaignPoints) -> int:
    return sum(finished(point.row) for point in campaign.points)


def _read_or_reason(source: Path) -> CampaignPoints | str:
    """Read one; a sentence where it cannot be."""
    try:
        return _read(source)
    except UserError as error:
        return str(error)
    except Exception as error:  # whatever is in one campaign, the list has the others
        message = error.strerror if isinstance(error, OSError) else str(error)
        return f"it cannot be read: {printable(message or '')[:200] or type(error).__name__}"


def _read(source: Path) -> CampaignPoints:
    """Read a campaign's folder, or an export in a temporary one."""
    with archive.opened(source, str(source)) as content:
        return _points_of(source, content.campaign)


def _points_of(source: Path, campaign: Campaign) -> CampaignPoints:
    _refuse_links(campaign.path)
    document = read_campaign(campaign, campaign.path)
    settings, cells = campaign.settings, document.cells
    name = printable(campaign.name)
    id = safe_name(name, name, settings.inventory_digest, repr(settings.created_at))
    machines = _machines(cells)
    runs = [run for run in document.records if run.began is not None]
    began = min((run.began or 0.0 for run in runs), default=None)
    ended = max(((run.began or 0.0) + run.wall_s for run in runs), default=0.0)
    marks = {IMPORTED: settings.imported, REDACTED: settings.redacted}
    return CampaignPoints(
        id=id,
        name=name,
        path=source,
        began=began,
        wall_s=ended - (began or 0.0),
        points=[
            _point(id, *each, marks)
            for each in zip(cells, document.rows, _keys(cells, machines), machines, strict=True)
        ],
        live=document.live,
        marks=tuple(mark for mark, holds in marks.items() if holds),
    )


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


def _machines(cells: Sequence[MeasuredCell]) -> list[str]:
    """Return each cell's kind of machine. What never began has none of its own: where all others of
    the campaign have the same, it would have been that.
    """
    machines = [machine_of(cell.record) for cell in cells]
    known_machines = {machine for machine in machines if machine != UNKNOWN_MACHINE}
    fallback = known_machines.pop() if len(known_machines) == 1 else UNKNOWN_MACHINE
    return [fallback if machine == UNKNOWN_MACHINE else machine for machine in machines]


def _keys(cells: Sequence[MeasuredCell], machines: Sequence[str]) -> list[str]:
    """Return each cell's key; equal ones get their cells' names."""
    cells_on = list(zip(cells, machines, strict=True))
    count = Counter(cell_key(*each) for each in cells_on)
    return [
        cell_key(*each, with_name=each[0].record.imported or count[cell_key(*each)] > 1)
        for each in cells_on
    ]


def _point(
    campaign: str,
    cell: MeasuredCell,
    row: Row,
    key: str,
    machine: str,
    of_campaign: Mapping[str, bool],
) -> Point:
    marks = {
        IMPORTED: of_campaign[IMPORTED] or any(run.imported for run in cell.records),
        REDACTED: of_campaign[REDACTED],
        NOT_PUBLISHABLE: finished(row) and row["verdict"] != PUBLISHABLE,
    }
    return Point(
        campaign=campaign,
        key=key,
        machine=machine,
        row=row,
        facts=facts_of(cell, names=not of_campaign[REDACTED]),
        unofficial=tuple(mark for mark, holds in marks.items() if holds),
        began=min((run.began for run in cell.records if run.began is not None), default=None),
    )


def _without_folder(reason: str, source: Path) -> str:
    """Leave out of a sentence where a source lies: that is of the machine that reads it."""
    for folder in (source.resolve().parent, source.parent):
        reason = reason.replace(f"{folder}/", "") if folder != Path("/") else reason
    return reason
