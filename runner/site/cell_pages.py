"""The page of a cell over time: plots, changes with what changed there, and its campaigns. Pure."""

from collections.abc import Sequence
from typing import Any

from node.printable import printable
from runner.base.clock import ZONE
from runner.base.text import listing
from runner.figures.changes import FEWEST_POINTS
from runner.history.cell_points import Point
from runner.history.regression_list import when
from runner.history.regressions import BROKE
from runner.history.series import Series, SeriesChange, differing
from runner.report.details import anchor
from runner.site import site_paths
from runner.site.drawing import Level, Mark, plot
from runner.site.sheets import (
    PageCell,
    PageColumn,
    PageRow,
    PageSheet,
    status,
    text_cell,
    why_not,
    with_interval,
)
from runner.site.site_model import WholeSite
from runner.tables.catalogue.every_column import COLUMNS, THRESHOLDS, title
from runner.tables.formatting import MISSING, number_text

ROOT = "../"
MOST_FACTS = 4  # that are named in a row of the table


def page(site: WholeSite, series: Series) -> dict[str, Any]:
    """Return what templates/site/cell.html.j2 needs."""
    oldest, newest = series.points[0], series.points[-1]
    return {
        "title": printable(series.cell),
        "home": f"{ROOT}{site_paths.INDEX}",
        "words": (
            f"{series.system} on {series.machine}; {len(series.points)} campaigns from"
            f" {when(oldest.began)} to {when(newest.began)}"
        ),
        "changes": [_change(site, series, change) for change in series.changes],
        "breaks": [
            regression
            for regression in site.regressions
            if regression.series is series and regression.word == BROKE
        ],
        "no_change": _no_change(series),
        "plots": [_plot(series, name) for name in _quantities(series)],
        "table": _table(site, series),
    }


def sentence(change: SeriesChange) -> str:
    """Say what a quantity was and is."""
    spots = COLUMNS[change.quantity].decimals
    step = change.change
    was, now = (number_text(value, spots) for value in (step.before, step.after))
    return f"{title(change.quantity)} {was}, then {now} ({step.percent:+.1f} %)"


def chance(p: float | None) -> str:
    """Say how likely noise alone makes such a change anywhere in the series."""
    if p is None:
        return ""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def campaign_link(id: str, point: Point) -> str:
    """Return the row of a point's cell in its campaign's page, from the site's first page."""
    return f"{site_paths.campaign(id)}#{anchor(str(point.row['cell_id']))}"


def _quantities(series: Series) -> list[str]:
    """Return the quantities that any point of the series has."""
    return [q for q in THRESHOLDS if any(point.figure(q) is not None for point in series.points)]


def _no_change(series: Series) -> str:
    counted = len(series.points) - len(series.left_out["samples_per_s"])
    if counted < FEWEST_POINTS:
        return (
            f"Changes are looked for among {FEWEST_POINTS} campaigns or more whose figures count;"
            f" here are {counted}."
        )
    return "No change beyond noise and thresholds."


def _id(series: Series, point: Point) -> str:
    return next(id for id, p in zip(series.campaigns, series.points, strict=True) if p is point)


def _change(site: WholeSite, series: Series, change: SeriesChange) -> dict[str, Any]:
    first_bad, last_good = _id(series, change.first), _id(series, change.last)
    there = (last_good, first_bad) in site.comparisons
    return {
        "word": change.word,
        "worse": change.worse,
        "open": change.open,
        "sentence": sentence(change),
        "chance": chance(change.change.p),
        "differs": change.differs,
        "first": f"{site.by_id[first_bad].name}, {when(change.first.began)}",
        "first_href": ROOT + campaign_link(first_bad, change.first),
        "last": f"{site.by_id[last_good].name}, {when(change.last.began)}",
        "last_href": ROOT + campaign_link(last_good, change.last),
        "comparison": ROOT + site_paths.comparison(last_good, first_bad) if there else "",
    }


def _plot(series: Series, quantity: str) -> dict[str, Any]:
    left_out = series.left_out[quantity]
    marks = [
        Mark(
            at=at,
            value=point.figure(quantity),
            low=(point.interval(quantity) or (None, None))[0],
            high=(point.interval(quantity) or (None, None))[1],
            counted=at not in left_out,
            words=_point_text(point, quantity, left_out.get(at, "")),
            href=ROOT + campaign_link(id, point),
            date=when(point.began),
        )
        for at, (id, point) in enumerate(zip(series.campaigns, series.points, strict=True))
    ]
    counted = [at for at in range(len(series.points)) if at not in left_out]
    changes = [change.change for change in series.changes if change.quantity == quantity]
    levels = []
    if changes:
        edges = [0, *(change.at for change in changes), len(counted)]
        heights = [changes[0].before, *(change.after for change in changes)]
        levels = [
            Level(counted[begin], counted[end - 1], height)
            for begin, end, height in zip(edges, edges[1:], heights, strict=False)
        ]
    hollow = "; hollow points do not count for changes" if left_out else ""
    return {
        "title": title(quantity),
        "caption": f"A point is a campaign and leads to its row; lines are 95 % intervals{hollow}.",
        "svg": plot(
            f"{title(quantity)} of {series.cell} over campaigns",
            marks,
            levels,
            [counted[change.at] for change in changes],
        ),
    }


def _point_text(point: Point, quantity: str, why: str) -> str:
    value, interval = point.figure(quantity), point.interval(quantity)
    text = f"{point.campaign}, {when(point.began)}: "
    text += MISSING if value is None else number_text(value, COLUMNS[quantity].decimals)
    if interval:
        text += f" ({', '.join(number_text(end, COLUMNS[quantity].decimals) for end in interval)})"
    return f"{text}; {why}" if why else text


def _table(site: WholeSite, series: Series) -> PageSheet:
    quantities = _quantities(series)
    columns = [
        PageColumn("campaign", "campaign"),
        PageColumn("date", f"date ({ZONE})"),
        PageColumn("status", "status", filtered=True),
        *(PageColumn(name, title(name), number=True) for name in quantities),
        PageColumn("changed", "changed since the one before"),
        PageColumn("why", "caveats"),
        PageColumn("unofficial", "unofficial", filtered=True),
    ]
    rows = []
    before = None
    for id, point in zip(series.campaigns, series.points, strict=True):
        cells = _cells(site, id, point, before, quantities)
        rows.append(PageRow(cells, f"in-{id}", not point.finished))
        before = point
    return PageSheet("campaigns", "Campaigns of this cell", columns, rows[::-1])


def _cells(
    site: WholeSite, id: str, point: Point, before: Point | None, quantities: Sequence[str]
) -> Sequence[PageCell]:
    href = ROOT + campaign_link(id, point)
    differs = differing(before, point) if before else ()
    facts = listing([f"{key}: {now}" for key, _, now in differs], MOST_FACTS, "; ")
    return [
        text_cell(site.by_id[id].name, href=href),
        text_cell(when(point.began)),
        status(point),
        *(with_interval(point, name) for name in quantities),
        text_cell(facts, "spread"),
        text_cell(why_not(point), "why"),
        text_cell(", ".join(point.unofficial)),
    ]
