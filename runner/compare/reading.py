"""The campaigns and exports that a person names, read whole; what stays of each is its points.

A *point* is one cell of one campaign: its row as `collect --format json` has it, and what tells it
from other cells (identity.py). The points of one key are a *series*, as campaigns followed.
"""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from node.printable import printable
from runner.archive import archive
from runner.base.errors import UserError
from runner.compare.identity import facts_of, keys_of, machines_of, safe_name
from runner.figures.measured_cell import MeasuredCell
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.tables.campaign_reading import read_campaign
from runner.tables.row import PUBLISHABLE, Row, finished

EXPORTS = (".tar.gz", ".tgz")
MOST_PROCESSES = 8
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
    for source, outcome in zip(paths, _read_each(paths), strict=True):
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


def sources(paths: Sequence[Path]) -> list[Path]:
    """List the campaigns and exports that are named, or are in a named folder; each once.

    A campaign in such a folder in which nothing ran is left out. Raises UserError where a name
    leads nowhere, or a folder has neither.
    """
    every_source = [source for path in paths for source in _in(path)]
    return list({path.resolve(): path for path in every_source}.values())


def _in(path: Path) -> Iterable[Path]:
    name = printable(str(path))
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is no file or folder {name}; name a folder of campaigns")
    if (path / names.CAMPAIGN).exists():
        return [path]
    there = sorted(path.iterdir())
    campaigns = [
        candidate
        for candidate in there
        if (candidate / names.CAMPAIGN).exists() and Campaign(candidate).begun
    ]
    exports = [
        candidate for candidate in there if candidate.name.endswith(EXPORTS) and candidate.is_file()
    ]
    if not campaigns and not exports:
        raise UserError(
            f"{name} holds no campaign in which anything ran, and no export; name a folder of"
            " campaigns (runs), one campaign, or a .tar.gz that `python -m runner export` wrote"
        )
    return [*campaigns, *exports]


def _order(campaign: CampaignPoints) -> tuple[float, str, str]:
    """Sort by when they began; one that nobody knows when comes last."""
    began = float("inf") if campaign.began is None else campaign.began
    return began, campaign.name, campaign.id


def _ended(campaign: CampaignPoints) -> int:
    return sum(finished(point.row) for point in campaign.points)


def _read_or_reason(source: Path) -> CampaignPoints | str:
    """Read one; a sentence where it cannot be."""
    try:
        with archive.opened(source, str(source)) as content:
            return _points_of(source, content.campaign)
    except UserError as error:
        return str(error)
    except Exception as error:  # whatever is in one campaign, the list has the others
        message = error.strerror if isinstance(error, OSError) else str(error)
        return f"it cannot be read: {printable(message or '')[:200] or type(error).__name__}"


def _points_of(source: Path, campaign: Campaign) -> CampaignPoints:
    _refuse_links(campaign.path)
    document = read_campaign(campaign, campaign.path)
    settings, cells = campaign.settings, document.cells
    name = printable(campaign.name)
    id = safe_name(name, name, settings.inventory_digest, repr(settings.created_at))
    machines = machines_of(cells)
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
            for each in zip(cells, document.rows, keys_of(cells, machines), machines, strict=True)
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


def _read_each(arguments: Sequence[Path]) -> Iterator[CampaignPoints | str]:
    """Read each on all processors, in their order.

    Ctrl-C ends the processes, and nothing temporary stays. Raises UserError where one was killed.
    """
    count = min(len(os.sched_getaffinity(0)), MOST_PROCESSES, len(arguments))
    if count < 2:
        yield from map(_read_or_reason, arguments)
        return
    before = set(multiprocessing.active_children())
    with tempfile.TemporaryDirectory(prefix="trainbench-") as scratch:
        pool = ProcessPoolExecutor(count, initializer=_begin, initargs=(scratch,))
        try:
            yield from pool.map(_read_or_reason, arguments)
        except BrokenProcessPool:
            raise UserError(
                "a process that read campaigns was killed, perhaps for the memory that it took;"
                " name fewer of them"
            ) from None
        except BaseException:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(scratch: str) -> None:
    """Leave Ctrl-C to the process that all see, which ends this one and removes what it had
    extracted.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    tempfile.tempdir = scratch
