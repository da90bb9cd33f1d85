"""What got worse over many campaigns, newest first: the list that `history` prints. Pure.

A quantity's change points are figures/changes.py's, their words `compare`'s.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.compare.quantity import standard_error_percent, word
from runner.compare.reading import IMPORTED, CampaignPoints, Point, Series, slug
from runner.compare.side import differing, ended_well
from runner.figures.changes import Change, change_points
from runner.tables.columns import COLUMNS, THRESHOLDS
from runner.tables.row import finished
from runner.terms.record import NOT_ENDED

BROKE = "broke"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "regressions.trainbench")
NODES = "nodes"  # the fact which nodes it ran on, that a redacted side does not say


@dataclass(frozen=True)
class Regression:
    """One thing that got worse, in the point `first` after the point `last` of a series.

    `word` is compare's: slower, more_memory, broke. `quantity` and `change` are None of what broke.
    `open`: it is still so in the newest campaign that has the cell.
    """

    series: Series
    word: str
    last: Point
    first: Point
    open: bool
    quantity: str | None = None
    change: Change | None = None

    @property
    def id(self) -> str:
        """A name that stays the same, whatever campaigns come later."""
        parts = (self.first.key, self.word, self.quantity or "", self.first.campaign)
        return f"urn:uuid:{uuid.uuid5(NAMESPACE, chr(0).join(parts))}"

    @property
    def cell(self) -> str:
        """The cell's name, as the newest campaign has it."""
        return self.series[-1].cell

    @property
    def reason(self) -> str:
        """How it broke."""
        return "" if self.change else self.first.row["reason"] or "nobody says why"

    @property
    def differs(self) -> tuple[tuple[str, str, str], ...]:
        """The facts that are others: (key, was, is)."""
        was, now = self.last.facts, self.first.facts
        one_is_silent = NODES not in was or NODES not in now  # redacted, or imported
        return tuple(differing(was, now, (NODES,) if one_is_silent else ()))

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data; its schema is in regressions.json."""
        change = self.change
        return {
            "id": self.id,
            "verdict": self.word,
            "open": self.open,
            "cell": self.cell,
            "series": slug(self.series),
            "system": str(self.series[-1].row["system"]),
            "machine": self.series[-1].machine,
            "quantity": self.quantity,
            "before": change and change.before,
            "after": change and change.after,
            "change_percent": change and change.percent,
            "p": change and change.p,
            "reason": self.reason,
            "last_good": self.last.campaign,
            "first_bad": self.first.campaign,
            "first_bad_began": self.first.began,
            "unofficial": list(self.first.unofficial),
            "changed": [{"key": key, "was": was, "is": now} for key, was, now in self.differs],
        }


def regressions(every: Sequence[Series], campaigns: Sequence[CampaignPoints]) -> list[Regression]:
    """List all, those of the newest campaign first; of one campaign in the order of the cells."""
    order = {campaign.id: at for at, campaign in enumerate(campaigns)}
    found = [each for series in every for each in (*_worse(series), *_broke(series))]
    return sorted(found, key=lambda each: order[each.first.campaign], reverse=True)


def _worse(series: Series) -> Iterator[Regression]:
    """Find the change points for the worse of each quantity that `compare` judges by itself."""
    for quantity, threshold in THRESHOLDS.items():
        column = COLUMNS[quantity]
        points = [point for point in series if counts(point, quantity)]
        noise = [standard_error_percent(point.row, quantity) for point in points]
        values = [float(point.row["figures"][quantity]) for point in points]
        changes = change_points(values, noise, threshold)
        for change in changes:
            newest = (changes[-1].after / change.before - 1) * 100
            if change.percent * column.better < 0:
                yield Regression(
                    series=series,
                    word=word(column, change.percent),
                    last=points[change.at - 1],
                    first=points[change.at],
                    open=newest * column.better < -threshold,
                    quantity=quantity,
                    change=change,
                )


def counts(point: Point, quantity: str) -> bool:
    """Whether a point is looked at for changes of a quantity."""
    judged = IMPORTED not in point.unofficial and finished(point.row)
    return judged and bool((point.row["figures"].get(quantity) or 0) > 0)


def _broke(series: Series) -> Iterator[Regression]:
    """Find where a cell that had ended ok did not.

    Cells that run, that a person stopped or that were imported are not judged.
    """
    reported = [
        point
        for point in series
        if point.row["status"] not in (*NOT_ENDED, "interrupted")
        if IMPORTED not in point.unofficial
    ]
    for at in range(1, len(reported)):
        last, first = reported[at - 1], reported[at]
        if ended_well(last.row) and not ended_well(first.row):
            later = any(ended_well(point.row) for point in reported[at + 1 :])
            yield Regression(series, BROKE, last, first, open=not later)
