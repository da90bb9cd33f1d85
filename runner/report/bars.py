"""Throughput as bars, which are HTML: they fit any width, and their numbers link to logs. Pure."""

from collections.abc import Sequence
from typing import Any, cast

from node.printable import printable
from runner.report.groups import MOST_CURVES, Group, axes_of, groups, labels
from runner.report.links import href
from runner.tables.formatting import number_text
from runner.tables.row import Row, finished, log_of


def _rate(row: Row) -> float | None:
    return cast(float | None, row["figures"]["samples_per_s"] if finished(row) else None)


def throughput_bars(table: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Draw bars of samples/s, in groups where there are many; None when no row has a number.

    Lengths are in percent of the longest; `low` and `span` are of the 95 % interval, of
    which a bar without one says why in `lacks`.
    """
    bars = [
        (rate, row["figures"]["samples_per_s_ci_high"]) for row in table if (rate := _rate(row))
    ]
    if not bars:
        return None
    most = max(max(rate, high or 0.0) for rate, high in bars)
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
    rate = _rate(row)
    drawn = {"name": name, "status": row["status"], "href": href(log_of(row)), "rate": None}
    if rate is None:
        return drawn
    lacks = row["missing"].get("samples_per_s_ci_low", "")
    label, low, span = f"no interval: {lacks}", None, None
    ends = [row["figures"][f"samples_per_s_ci_{end}"] for end in ("low", "high")]
    if None not in ends:
        low, high = (end / most * 100 for end in ends)
        span = f"{max(high - low, 0):.2f}"
        label = "95 % interval {} to {}".format(*map(number_text, ends))
    comparison = row["comparison"]
    return {
        **drawn,
        "rate": number_text(rate),
        "length": f"{rate / most * 100:.2f}",
        "low": None if low is None else f"{low:.2f}",
        "span": span,
        "lacks": "" if span else lacks,
        "baseline": comparison is not None and comparison["is_baseline"],
        "title": f"{printable(row['cell'])}: {number_text(rate)} samples/s ({label})",
    }
