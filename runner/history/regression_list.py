"""The list of regressions as text: for a terminal, as Markdown, as JSON. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from node.printable import printable
from runner.base import clock
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, fits, grid
from runner.base.text import counted, listing
from runner.history.cell_points import CampaignPoints, LeftOut
from runner.history.regressions import Regression
from runner.history.series import Series
from runner.tables.catalogue.every_column import THRESHOLDS, title
from runner.tables.formatting import MISSING, number_text
from runner.tables.markdown import bulleted, piped

SCHEMA = 1
HEADERS = (f"since ({clock.ZONE})", "cell", "machine", "what", "was, is", "change", "now")
MOST_FACTS = 6  # that are named below a table; JSON and pages have all


@dataclass(frozen=True)
class Listed:
    """What the list was made from."""

    campaigns: Sequence[CampaignPoints]
    left_out: Sequence[LeftOut]
    series: Sequence[Series]


def to_table(regressions: Sequence[Regression], read: Listed, width: int) -> str:
    """Write it for a terminal of that many columns."""
    rows = [row_of(regression) for regression in regressions]
    parts = []
    if rows and fits(HEADERS, rows, width):
        parts.append(grid(HEADERS, rows, width))
    elif rows:
        parts.append(
            "\n".join(
                filled(f"{row[0]}: {regression.sentence}", width)
                for row, regression in zip(rows, regressions, strict=True)
            )
        )
    parts.append("\n".join(filled(line, width) for line in _below(regressions, read)))
    return "\n\n".join(parts) + "\n"


def to_markdown(regressions: Sequence[Regression], read: Listed) -> str:
    """Write a heading, a table and notes."""
    below = list(map(MarkdownText, _below(regressions, read)))
    headers, rows = (
        map(MarkdownText, HEADERS),
        (map(MarkdownText, row_of(regression)) for regression in regressions),
    )
    table = piped(list(headers), [list(row) for row in rows]) if regressions else ""
    parts = [f"**{below[0]}**", table, bulleted(below[1:])]
    return "\n\n".join(section for section in parts if section) + "\n"


def to_json(regressions: Sequence[Regression], read: Listed) -> str:
    """Write one JSON object; its schema is regressions.json."""
    return json_text(document(regressions, read.campaigns, read.left_out)) + "\n"


def document(
    regressions: Sequence[Regression],
    campaigns: Sequence[CampaignPoints],
    left_out: Sequence[LeftOut],
) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "schema": SCHEMA,
        "thresholds_percent": dict(THRESHOLDS),
        "campaigns": [campaign.id for campaign in campaigns],
        "left_out": [{"source": unread.source, "reason": unread.reason} for unread in left_out],
        "regressions": [as_data(regression) for regression in regressions],
    }


def as_data(regression: Regression) -> dict[str, Any]:
    """Return a regression as plain data."""
    series = regression.series
    return {
        "id": regression.id,
        "verdict": regression.word,
        "open": regression.open,
        "cell": series.cell,
        "series": series.slug,
        "system": series.system,
        "machine": series.machine,
        "quantity": regression.quantity,
        "before": regression.before,
        "after": regression.after,
        "change_percent": regression.percent,
        "p": regression.p,
        "reason": regression.reason,
        "last_good": regression.last_id,
        "first_bad": regression.first_id,
        "first_bad_began": regression.first.began,
        "unofficial": list(regression.first.unofficial),
        "changed": [{"key": key, "was": was, "is": now} for key, was, now in regression.differs],
    }


def when(seconds: float | None) -> str:
    """Write when a campaign began, to the minute, as far as it is known."""
    return MISSING if seconds is None else clock.minute(seconds)


def row_of(regression: Regression) -> list[str]:
    """Return a regression's texts, one for each of HEADERS."""
    places = None if regression.quantity == "samples_per_s" else 0
    numbers = [
        MISSING if v is None else number_text(v, places)
        for v in (regression.before, regression.after)
    ]
    quantity = title(regression.quantity or "")
    return [
        when(regression.first.began),
        printable(regression.series.cell),
        printable(regression.series.machine),
        f"{regression.word} ({quantity})" if quantity else regression.word,
        ", ".join(numbers) if regression.quantity else f"ok, {regression.first.row['status']}",
        MISSING if regression.percent is None else f"{regression.percent:+.1f}%",
        "open" if regression.open else "recovered",
    ]


def _below(regressions: Sequence[Regression], read: Listed) -> list[str]:
    count, still = len(regressions), sum(regression.open for regression in regressions)
    summary = f"{counted(count, 'regression')}, {still} open" if count else "no regression"
    several = [series for series in read.series if len(series.points) > 1]
    lines = [
        f"{summary}: {counted(len(read.campaigns), 'campaign')},"
        f" {counted(len(read.series), 'cell')},"
        f" {len(several)} of them in several campaigns"
    ]
    lines += _changed(regressions)
    lines += [f"{unread.source} is left out: {unread.reason}" for unread in read.left_out]
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
        names = listing(list(dict.fromkeys(regression.series.cell for regression in members)))
        yield f"with {names} changed on {began}: {listing(changes, MOST_FACTS, '; ')}"
