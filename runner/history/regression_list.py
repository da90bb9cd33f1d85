"""The list of regressions as text: for a terminal, as Markdown, as JSON. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from node.printable import printable
from runner.base import clock
from runner.base.escapes import MarkdownText, json_text
from runner.base.grid import filled, fits, grid
from runner.base.text import counted, some
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


def to_table(found: Sequence[Regression], read: Listed, width: int) -> str:
    """Write it for a terminal of that many columns."""
    rows = [_row(each) for each in found]
    parts = []
    if rows and fits(HEADERS, rows, width):
        parts.append(grid(HEADERS, rows, width))
    elif rows:
        parts.append(
            "\n".join(
                filled(f"{row[0]}: {each.sentence}", width)
                for row, each in zip(rows, found, strict=True)
            )
        )
    parts.append("\n".join(filled(line, width) for line in _below(found, read)))
    return "\n\n".join(parts) + "\n"


def to_markdown(found: Sequence[Regression], read: Listed) -> str:
    """Write a heading, a table and notes."""
    below = list(map(MarkdownText, _below(found, read)))
    headers, rows = map(MarkdownText, HEADERS), (map(MarkdownText, _row(each)) for each in found)
    table = piped(list(headers), [list(row) for row in rows]) if found else ""
    parts = [f"**{below[0]}**", table, bulleted(below[1:])]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_json(found: Sequence[Regression], read: Listed) -> str:
    """Write one JSON object; docs/schemas/regressions.json has its keys."""
    return json_text(document(found, read.campaigns, read.left_out)) + "\n"


def document(
    found: Sequence[Regression], campaigns: Sequence[CampaignPoints], left_out: Sequence[LeftOut]
) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "schema": SCHEMA,
        "thresholds_percent": dict(THRESHOLDS),
        "campaigns": [each.id for each in campaigns],
        "left_out": [{"source": each.source, "reason": each.reason} for each in left_out],
        "regressions": [as_data(each) for each in found],
    }


def as_data(found: Regression) -> dict[str, Any]:
    """Return a regression as plain data."""
    series = found.series
    return {
        "id": found.id,
        "verdict": found.word,
        "open": found.open,
        "cell": series.cell,
        "series": series.slug,
        "system": series.system,
        "machine": series.machine,
        "quantity": found.quantity,
        "before": found.before,
        "after": found.after,
        "change_percent": found.percent,
        "p": found.p,
        "reason": found.reason,
        "last_good": found.last_id,
        "first_bad": found.first_id,
        "first_bad_began": found.first.began,
        "unofficial": list(found.first.unofficial),
        "changed": [{"key": key, "was": was, "is": now} for key, was, now in found.differs],
    }


def when(seconds: float | None) -> str:
    """Write when a campaign began, to the minute, as far as it is known."""
    return MISSING if seconds is None else clock.minute(seconds)


def _row(found: Regression) -> list[str]:
    places = None if found.quantity == "samples_per_s" else 0
    numbers = [
        MISSING if v is None else number_text(v, places) for v in (found.before, found.after)
    ]
    quantity = title(found.quantity or "")
    return [
        when(found.first.began),
        printable(found.series.cell),
        printable(found.series.machine),
        f"{found.word} ({quantity})" if quantity else found.word,
        ", ".join(numbers) if found.quantity else f"ok, {found.first.row['status']}",
        MISSING if found.percent is None else f"{found.percent:+.1f}%",
        "open" if found.open else "recovered",
    ]


def _below(found: Sequence[Regression], read: Listed) -> list[str]:
    count, still = len(found), sum(each.open for each in found)
    words = f"{counted(count, 'regression')}, {still} open" if count else "no regression"
    several = [each for each in read.series if len(each.points) > 1]
    lines = [
        f"{words}: {counted(len(read.campaigns), 'campaign')},"
        f" {counted(len(read.series), 'cell')},"
        f" {len(several)} of them in several campaigns"
    ]
    lines += _changed(found)
    lines += [f"{each.source} is left out: {each.reason}" for each in read.left_out]
    return [printable(line) for line in lines]


def _changed(found: Sequence[Regression]) -> Iterable[str]:
    """Say once for all cells of a campaign what changed there with them."""
    cells: dict[tuple[str, tuple[tuple[str, str, str], ...]], list[Regression]] = {}
    for each in found:
        if each.differs:
            cells.setdefault((when(each.first.began), each.differs), []).append(each)
    for (began, differs), those in cells.items():
        shown = [f"{key}: {was}, then {now}" for key, was, now in differs]
        names = some(list(dict.fromkeys(each.series.cell for each in those)))
        yield f"with {names} changed on {began}: {some(shown, MOST_FACTS, '; ')}"
