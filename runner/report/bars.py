"""Throughput as bars, which are HTML: they fit any width, and their numbers link to logs. Pure."""

from collections.abc import Sequence
from typing import Any

from node.printable import printable
from runner.figures.summary import Summary
from runner.report.cell_labels import labels
from runner.report.groups import MOST_CURVES, Group, axes_of, groups
from runner.report.links import href
from runner.tables.catalogue.every_column import missing
from runner.tables.formatting import number_text
from runner.tables.row import Row


def _bar(row: Row) -> Summary | None:
    return row.statistics.samples_per_s if row.finished else None


def throughput_bars(table: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Draw bars of samples/s, in groups where there are many; None when no row has a number.

    Lengths are in percent of the longest; `low` and `span` are of the 95 % interval, of
    which a bar without one says why in `lacks`.
    """
    bars = [bar for row in table if (bar := _bar(row))]
    if not bars:
        return None
    most = max(max(bar.value, bar.ci_high or 0.0) for bar in bars)
    few = len(table) <= MOST_CURVES
    alone = Group("", tuple(range(len(table))), tuple(labels(table)))
    return [
        {
            "title": group.label,
            "bars": [
                _length(table[index], name, most)
                for index, name in zip(group.members, group.names, strict=True)
            ],
        }
        for group in ([alone] if few else map(shared_in_title, groups(axes_of(table))))
    ]


def shared_in_title(group: Group) -> Group:
    """Move to a group's title what each of its members' names has: no other group is beside it."""
    split = [name.split(", ") for name in group.names]
    shared = [field for field in split[0] if all(field in parts for parts in split)]
    if len(group.names) < 2 or not shared or any(len(parts) == len(shared) for parts in split):
        return group
    names = (", ".join(field for field in parts if field not in shared) for parts in split)
    return Group(", ".join([group.label, *shared]), group.members, tuple(names))


def _length(row: Row, name: str, most: float) -> dict[str, Any]:
    rates = _bar(row)
    drawn = {"name": name, "status": row.status, "href": href(row.record.log), "rate": None}
    if rates is None:
        return drawn
    rate, p5, p95 = map(number_text, (rates.value, rates.p5, rates.p95))
    lacks = missing(row).get("samples_per_s_ci_low", "")
    label, low, span = f"no interval: {lacks}", None, None
    if rates.confidence:
        low, high = (end / most * 100 for end in rates.confidence)
        span = f"{max(high - low, 0):.2f}"
        label = "95 % interval {} to {}".format(*map(number_text, rates.confidence))
    return {
        **drawn,
        "rate": rate,
        "length": f"{rates.value / most * 100:.2f}",
        "low": None if low is None else f"{low:.2f}",
        "span": span,
        "lacks": "" if rates.confidence else lacks,
        "baseline": row.comparison is not None and row.comparison.is_baseline,
        "title": f"{printable(row.cell)}: {rate} samples/s ({label}; p5 {p5}, p95 {p95})",
    }
