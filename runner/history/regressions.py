"""What got worse, newest first: the list that `history` prints. Pure."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from runner.history.cell_points import IMPORTED, REDACTED, CampaignPoints, Point
from runner.history.series import Series, differing, ended_by_itself
from runner.tables.catalogue.every_column import COLUMNS, title
from runner.tables.formatting import number_text

BROKE = "broke"
MOST_REASON = 160  # letters of one, in a sentence
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "regressions.trainbench")


@dataclass(frozen=True)
class Regression:
    """One thing that got worse, in a campaign (its id) after another.

    `word` is compare's: slower, more_memory, broke. `quantity` is None of what broke, whose
    `reason` says how. `open`: it is still so in the newest campaign that has the cell.
    """

    series: Series
    word: str
    first: Point
    last: Point
    first_id: str
    last_id: str
    open: bool
    differs: tuple[tuple[str, str, str], ...]
    quantity: str | None = None
    before: float | None = None
    after: float | None = None
    percent: float | None = None
    p: float | None = None
    reason: str = ""

    @property
    def id(self) -> str:
        """A name that stays the same, whatever campaigns come later."""
        parts = (self.series.key, self.word, self.quantity or "", self.first_id)
        return f"urn:uuid:{uuid.uuid5(NAMESPACE, chr(0).join(parts))}"

    @property
    def sentence(self) -> str:
        """What happened, in one sentence; with a word where a side is not official."""
        marks = dict.fromkeys((*self.last.unofficial, *self.first.unofficial))
        unofficial = [mark for mark in marks if mark in (IMPORTED, REDACTED)]
        return self._change_text + (f" ({', '.join(unofficial)})" if unofficial else "")

    @property
    def _change_text(self) -> str:
        if self.quantity is None or self.before is None or self.after is None:
            why = (
                self.reason if len(self.reason) <= MOST_REASON else f"{self.reason[:MOST_REASON]}…"
            )
            return f"{self.series.cell}: ok, then {self.first.row['status']}: {why}"
        places = COLUMNS[self.quantity].decimals
        was, now = (number_text(value, places) for value in (self.before, self.after))
        change = f"{self.percent:+.1f} %"
        return f"{self.series.cell}: {title(self.quantity)} {was}, then {now} ({change})"


def regressions(every: Sequence[Series], campaigns: Sequence[CampaignPoints]) -> list[Regression]:
    """List all, those of the newest campaign first; of one campaign in the order of the cells."""
    order = {campaign.id: at for at, campaign in enumerate(campaigns)}
    regressions_of_all = [
        regression for series in every for regression in (*_slower(series), *_broke(series))
    ]
    return sorted(
        regressions_of_all, key=lambda regression: order[regression.first_id], reverse=True
    )


def _slower(series: Series) -> list[Regression]:
    ids = dict(zip(map(id, series.points), series.campaigns, strict=True))
    return [
        Regression(
            series=series,
            word=change.word,
            first=change.first,
            last=change.last,
            first_id=ids[id(change.first)],
            last_id=ids[id(change.last)],
            open=change.open,
            differs=change.differs,
            quantity=change.quantity,
            before=change.change.before,
            after=change.change.after,
            percent=change.change.percent,
            p=change.change.p,
        )
        for change in series.changes
        if change.worse
    ]


def _broke(series: Series) -> list[Regression]:
    """Find where a cell that had ended ok did not.

    Cells that run, that a person stopped or that were imported are not judged.
    """
    reported = [
        (name, point)
        for name, point in zip(series.campaigns, series.points, strict=True)
        if ended_by_itself(point) and IMPORTED not in point.unofficial
    ]
    broken = []
    for at in range(1, len(reported)):
        (last_id, last_good), (first_id, first_bad) = reported[at - 1], reported[at]
        if last_good.ended_well and not first_bad.ended_well:
            later = any(point.ended_well for _, point in reported[at + 1 :])
            broken.append(
                Regression(
                    series=series,
                    word=BROKE,
                    first=first_bad,
                    last=last_good,
                    first_id=first_id,
                    last_id=last_id,
                    open=not later,
                    differs=differing(last_good, first_bad),
                    reason=str(first_bad.row.get("reason") or "nobody says why"),
                )
            )
    return broken
