"""The points of one cell over all campaigns, and where its quantities changed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runner.compare.quantity import standard_error_percent
from runner.figures.changes import Change, change_points
from runner.history.cell_points import IMPORTED, UNOFFICIAL, CampaignPoints, Point
from runner.history.identity import safe_name
from runner.tables.catalogue.every_column import COLUMNS, THRESHOLDS
from runner.terms.record import NOT_ENDED

NODES = "nodes"  # the fact which nodes it ran on, that a redacted side does not say


@dataclass(frozen=True)
class SeriesChange:
    """One change of a quantity: from the last point of the old level to the first of the new.

    `word` is compare's (slower, more_memory), `differs` are the facts that are others there:
    (key, was, is). `open`: no later point is back.
    """

    quantity: str
    change: Change
    last: Point
    first: Point
    word: str
    worse: bool
    open: bool
    differs: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Series:
    """One cell of one kind of machine, as campaigns followed each other.

    `campaigns` has the ids, one a point.
    """

    key: str
    points: tuple[Point, ...]
    campaigns: tuple[str, ...]
    changes: tuple[SeriesChange, ...] = ()
    left_out: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        """The cell's name, as the newest campaign has it."""
        return self.points[-1].cell

    @property
    def machine(self) -> str:
        """The kind of machine."""
        return self.points[-1].machine

    @property
    def system(self) -> str:
        """The system that trains."""
        return str(self.points[-1].row["system"])

    @property
    def slug(self) -> str:
        """A name for the series, as `--cell` and the JSON have it."""
        return safe_name(self.cell, self.key)


def all_series(campaigns: Sequence[CampaignPoints]) -> list[Series]:
    """Make the series of campaigns in their order, each as it first appeared."""
    points_by_key: dict[str, list[tuple[str, Point]]] = {}
    for campaign in campaigns:
        for point in campaign.points:
            points_by_key.setdefault(point.key, []).append((campaign.id, point))
    return [_series(key, pairs) for key, pairs in points_by_key.items()]


def _series(key: str, pairs: Sequence[tuple[str, Point]]) -> Series:
    points = tuple(point for _, point in pairs)
    changes: list[SeriesChange] = []
    left_out = {}
    for quantity, threshold in THRESHOLDS.items():
        why = {at: reason for at, p in enumerate(points) if (reason := why_left_out(p, quantity))}
        left_out[quantity] = why
        counted = [point for at, point in enumerate(points) if at not in why]
        changes += _changes(counted, quantity, threshold)
    return Series(key, points, tuple(id for id, _ in pairs), tuple(changes), left_out)


def why_left_out(point: Point, quantity: str) -> str:
    """Say why a point is not looked at for changes; nothing where it is."""
    row = point.row
    if IMPORTED in point.unofficial:
        return UNOFFICIAL[IMPORTED]
    if not point.finished:
        status = str(row["status"])
        return f"{status}: {row['reason']}" if row.get("reason") else status
    value = point.figure(quantity)
    if value is None or value <= 0:
        return str(row.get("missing", {}).get(quantity) or "no result")
    return ""


def _changes(points: Sequence[Point], quantity: str, threshold: float) -> list[SeriesChange]:
    values = [point.figure(quantity) or 0.0 for point in points]
    noise = [standard_error_percent(point.row, quantity) for point in points]
    change_list = change_points(values, noise, threshold)
    column = COLUMNS[quantity]
    changes = []
    for change in change_list:
        before, first_after = points[change.at - 1], points[change.at]
        worse = change.percent * column.better < 0
        newest = (change_list[-1].after / change.before - 1) * 100
        changes.append(
            SeriesChange(
                quantity=quantity,
                change=change,
                last=before,
                first=first_after,
                word=column.words[not worse],
                worse=worse,
                open=worse and newest * column.better < -threshold,
                differs=differing(before, first_after),
            )
        )
    return changes


def differing(before: Point, after: Point) -> tuple[tuple[str, str, str], ...]:
    """Return the facts that are others: (key, was, is)."""
    was, now = before.facts, after.facts
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    if NODES not in was or NODES not in now:  # one is redacted, or imported
        keys = [key for key in keys if key != NODES]
    return tuple((key, was.get(key, "–"), now.get(key, "–")) for key in keys)


def ended_by_itself(point: Point) -> bool:
    """Whether the point's cell ended, and no person stopped it."""
    return point.row["status"] not in (*NOT_ENDED, "interrupted")
