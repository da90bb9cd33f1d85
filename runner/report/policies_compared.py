"""Which recovery policy kept most goodput, in a sentence for each set of faults. Pure.

Goodput is over the whole run, so that cells with faults can be compared by it, as they cannot by
samples/s. Cells are compared that differ in `recovery` alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from runner.base.text import listing
from runner.figures.goodput import Goodput
from runner.report.groups import axes_of
from runner.tables.formatting import number_text
from runner.tables.row import Row

MOST = 4  # sets of faults with a sentence each
POLICY = "recovery"


def policies_compared(table: Sequence[Row]) -> list[str]:
    """Write the sentences; none where no two policies met the same faults."""
    cells: dict[tuple[Any, ...], dict[str, Goodput]] = {}
    rows = [row for row in table if row.finished and row.faulted and row.goodput]
    settings = axes_of(rows)
    names = {name for axes in settings for name in axes}
    varying = {name for name in names if len({axes.get(name) for axes in settings}) > 1}
    beside: dict[tuple[Any, ...], str] = {}
    for row, axes in zip(rows, settings, strict=True):
        assert row.goodput is not None
        same = {name: text for name, text in axes.items() if name != POLICY}
        key = row.record.campaign, row.record.model, *same.items()
        cells.setdefault(key, {})[row.goodput.policy] = row.goodput
        different = (f"{name} {text}" for name, text in same.items() if name in varying)
        beside[key] = ", ".join(different)
    several = [key for key, policies in cells.items() if len(policies) > 1]
    sentences = [text for key in several[:MOST] for text in _sentence(cells[key], beside[key])]
    if (more := len(several) - MOST) > 0:
        sentences.append(f"{more} more sets of faults have no sentence here.")
    return sentences


def _sentence(policies: dict[str, Goodput], beside: str) -> Iterator[str]:
    ranked = sorted(policies.items(), key=lambda item: -item[1].percent)
    (best, most), (worst, least) = ranked[0], ranked[-1]
    where = f" with {beside}" if beside else ""
    if most.half_percent is None or least.half_percent is None:
        figures = listing(
            [f"{name} {number_text(g.percent, 1)} %" for name, g in ranked], len(ranked)
        )
        yield (
            f"Goodput by recovery{where}: {figures}; one run does not show how runs differ:"
            " add repeats."
        )
    elif most.percent - least.percent > most.half_percent + least.half_percent:
        figures = f"{_text(most)}, {worst} least: {_text(least)}"
        yield f"Recovery {best} has most goodput{where}: {figures}."
    else:
        yield (
            f"Recovery {best} ({_text(most)}) and {worst} ({_text(least)}) have the same goodput"
            f"{where}, within the noise."
        )


def _text(goodput: Goodput) -> str:
    assert goodput.half_percent is not None
    percent, half = number_text(goodput.percent, 1), number_text(goodput.half_percent, 1)
    return f"{percent} % ± {half}"
