"""The list of regressions as text: for a terminal, as Markdown, as JSON. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from node.printable import printable
from runner.base import clock
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, fits, grid
from runner.base.text import counted, listing
from runner.history.points import CampaignPoints, LeftOut, Series
from runner.history.regressions import Regression
from runner.tables import text
from runner.tables.columns import THRESHOLDS, title
from runner.tables.formatting import MISSING, number_text

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
