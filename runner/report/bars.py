"""Throughput as bars, which are HTML: they fit any width, and their numbers link to logs. Pure."""

from collections.abc import Sequence
from typing import Any

from node.printable import printable
from runner.figures.summary import Summary
from runner.report.groups import MOST_CURVES, Group, axes_of, groups
from runner.report.links import href
from runner.tables.formatting import number_text
from runner.tables.row import Row


def _bar(row: Row) -> Summary | None:
    return row.statistics.samples_per_s if row.finished else None


def throughput_bars(table: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Draw bars of median samples/s, in groups where there are many; None when no row has a number.

    Lengths are in percent of the longest; `low` and `high` are the 5th and 95th percentile.
    """
    bars = [bar for row in table if (bar := _bar(row))]
    if not bars:
        return None
    most = max(bar.p95 for bar in bars)
    few = len(table) <= MOST_CURVES
    alone = Group("", tuple(range(len(table))), tuple(printable(row.cell) for row in table))
    return [
        {
            "title": group.label,
            "bars": [
                _length(table[place], name, most)
                for place, name in zip(group.members, group.names, strict=True)
            ],
        }
        for group in ([alone] if few else groups(axes_of(table)))
    ]


def _length(row: Row, name: str, most: float) -> dict[str, Any]:
    rates = _bar(row)
    drawn = {"name": name, "status": row.status, "href": href(row.record.log), "rate": None}
    if rates is None:
        return drawn
    rate, p5, p95 = map(number_text, (rates.median, rates.p5, rates.p95))
    low, length, high = (f"{v / most * 100:.2f}" for v in (rates.p5, rates.median, rates.p95))
    return {
        **drawn,
        "rate": rate,
        "length": length,
        "low": low,
        "span": f"{max(float(high) - float(low), 0):.2f}",
        "baseline": row.comparison is not None and row.comparison.is_baseline,
        "title": f"{printable(row.cell)}: {rate} samples/s (p5 {p5}, p95 {p95})",
    }
