"""What got worse over many campaigns, newest first: the list that `history` prints, as text for a
terminal, Markdown, JSON, and one page.

A quantity's change points are figures/changes.py's, their words `compare`'s.
"""

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.printable import printable
from node.time_words import lasts
from runner.base import clock
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, grid
from runner.base.text import counted, listing
from runner.compare.quantity import standard_error_percent, word
from runner.compare.reading import EXPORTS, IMPORTED, CampaignPoints, LeftOut, Point, Series, slug
from runner.compare.side import differing, ended_well
from runner.figures.changes import Change, change_points
from runner.report.details import anchor
from runner.report.links import href
from runner.report.templating import content_policy, templates
from runner.tables import text
from runner.tables.columns import COLUMNS, THRESHOLDS, title
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import finished
from runner.terms.record import NOT_ENDED

BROKE = "broke"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "regressions.trainbench")
NODES = "nodes"  # the fact which nodes it ran on, that a redacted side does not say
SCHEMA = 1
HEADERS = (f"since ({clock.ZONE})", "cell", "machine", "what", "was, is", "change", "now")
CAMPAIGN_HEADERS = (
    "campaign", "began (UTC)", "took", "cells", "ok", "publishable", "unofficial", "machine",
    "read from",
)  # fmt: skip

MOST_FACTS = 6  # that are named below a table; JSON and pages have all


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


@dataclass(frozen=True)
class Listed:
    """What the list was made from."""

    campaigns: Sequence[CampaignPoints]
    left_out: Sequence[LeftOut]
    series: Sequence[Series]


def to_table(regressions: Sequence[Regression], read: Listed, width: int) -> str:
    """Write it for a terminal of that many columns."""
    parts = [grid(HEADERS, [*map(row_of, regressions)], width)] if regressions else []
    parts.append("\n".join(filled(line, width) for line in _below(regressions, read)))
    return "\n\n".join(parts) + "\n"


def to_markdown(regressions: Sequence[Regression], read: Listed) -> str:
    """Write a heading, a table and notes."""
    below = list(_below(regressions, read))
    table = text.markdown(HEADERS, map(row_of, regressions)) if regressions else ""
    parts = [f"**{MarkdownText(below[0])}**", table, text.bulleted(below[1:])]
    return "\n\n".join(section for section in parts if section) + "\n"


def to_json(regressions: Sequence[Regression], read: Listed) -> str:
    """Write one JSON object; its schema is regressions.json."""
    document = {
        "schema": SCHEMA,
        "thresholds_percent": dict(THRESHOLDS),
        "campaigns": [campaign.id for campaign in read.campaigns],
        "left_out": [{"source": source, "reason": reason} for source, reason in read.left_out],
        "regressions": [regression.as_data() for regression in regressions],
    }
    return json_text(document) + "\n"


def when(seconds: float | None) -> str:
    """Write when a campaign began, to the minute, as far as it is known."""
    return MISSING if seconds is None else clock.minute(seconds)


def row_of(regression: Regression) -> list[str]:
    """Return a regression's texts, one for each of HEADERS."""
    quantity, change = title(regression.quantity or ""), regression.change
    places = None if regression.quantity == "samples_per_s" else 0
    levels = [number_text(v, places) for v in (change.before, change.after)] if change else []
    return [
        when(regression.first.began),
        printable(regression.cell),
        printable(regression.series[-1].machine),
        f"{regression.word} ({quantity})" if quantity else regression.word,
        ", ".join(levels) if change else f"ok, {regression.first.row['status']}",
        f"{change.percent:+.1f}%" if change else MISSING,
        "open" if regression.open else "recovered",
    ]


def _below(regressions: Sequence[Regression], read: Listed) -> list[str]:
    count, still = len(regressions), sum(regression.open for regression in regressions)
    summary = f"{counted(count, 'regression')}, {still} open" if count else "no regression"
    several = [series for series in read.series if len(series) > 1]
    lines = [
        f"{summary}: {counted(len(read.campaigns), 'campaign')},"
        f" {counted(len(read.series), 'cell')},"
        f" {len(several)} of them in several campaigns"
    ]
    lines += _changed(regressions)
    lines += [f"{source} is left out: {reason}" for source, reason in read.left_out]
    return [printable(line) for line in lines]


def _changed(regressions: Sequence[Regression]) -> Iterable[str]:
    """Say once for all cells of a campaign what changed there with them."""
    cells: dict[tuple[str, tuple[tuple[str, str, str], ...]], list[Regression]] = {}
    for regression in regressions:
        if regression.differs:
            cells.setdefault((when(regression.first.began), regression.differs), []).append(
                regression
            )
    for (began, differs), members in cells.items():
        changes = [f"{key}: {was}, then {now}" for key, was, now in differs]
        names = listing(list(dict.fromkeys(regression.cell for regression in members)))
        yield f"with {names} changed on {began}: {listing(changes, MOST_FACTS, '; ')}"


def to_html(regressions: Sequence[Regression], read: Listed, base: Path) -> str:
    """Write the page, for the folder `base`: its links to reports begin there."""
    links = {campaign.id: _report(campaign.path, base) for campaign in read.campaigns}
    page = templates().get_template("history/index.html.j2")
    return page.render(
        policy=content_policy([]),
        found=[_regression(each, links[each.first.campaign]) for each in regressions],
        found_headers=(*HEADERS, "reason, what changed with it"),
        count=counted(len(regressions), "regression"),
        still=sum(regression.open for regression in regressions),
        campaigns=[(links[each.id], _texts(each)) for each in reversed(read.campaigns)],
        campaign_headers=CAMPAIGN_HEADERS,
        left_out=read.left_out,
    )


def _report(source: Path, base: Path) -> str | None:
    """Return the link to a campaign's report, of its name beside it: runs/a and runs/a.html."""
    name = source.name
    for suffix in EXPORTS:
        name = name.removesuffix(suffix)
    report = source.resolve().with_name(f"{name}.html")
    return href(os.path.relpath(report, base.resolve())) if report.is_file() else None


def _regression(regression: Regression, report: str | None) -> tuple[str | None, list[str]]:
    changes = [f"{key}: {was}, then {now}" for key, was, now in regression.differs]
    cell = anchor(str(regression.first.row["cell_id"]))
    why = [regression.reason, listing(changes, MOST_FACTS, "; ") if changes else ""]
    texts = [*row_of(regression), "; ".join(filter(None, why))]
    return report and f"{report}#{cell}", texts


def _texts(campaign: CampaignPoints) -> list[Any]:
    points = campaign.points
    publishable = sum(finished(point.row) and not point.row["verdict_reasons"] for point in points)
    return [
        campaign.name,
        when(campaign.began),
        lasts(campaign.wall_s),
        len(points),
        sum(point.row["status"] == "ok" for point in points),
        publishable,
        ", ".join([*campaign.marks, *(["running"] if campaign.live else [])]),
        ", ".join(dict.fromkeys(point.machine for point in points)),
        campaign.source,
    ]
