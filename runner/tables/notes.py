"""What a reader must know to use the numbers of a table; each note only where it applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.flops import MODEL_FLOPS
from runner.lines import printable
from runner.tables.columns import DOUBTFUL, INCOMPLETE
from runner.tables.machine import machine_value
from runner.tables.row import Row

_SPREAD = {
    "intervals": "interquartile range of the logged intervals",
    "repeats": "range of the repeats' medians",
}
_MEMORY = {
    "memory_allocated_mib": ("allocated", "the framework's peak on the fullest device"),
    "memory_used_mib": ("used", "what the device (on a CPU, the process) had in use"),
}


def notes(table: Sequence[Row]) -> Iterator[str]:
    """The notes below a table, in the order of its columns."""
    rates = [rate for row in table if (rate := row.statistics.samples_per_s)]
    if rates:
        spread = " or, with repeats, ".join(
            _SPREAD[of] for of in sorted({rate.spread_of for rate in rates})
        )
        yield (
            "samples/s and step time: median over the steps after warm-up (the window);"
            f" spread: {spread}, in percent of the median."
        )
        sources = {rate.source for rate in rates}
        if sources != {"log"}:
            some = "" if sources == {"derived"} else " where the log has none"
            yield f"samples/s is global batch size / step time{some}."
    if any(row.vocabulary for row in table):
        yield (
            f"TFLOP/s per device: {MODEL_FLOPS.id} = {MODEL_FLOPS.expression},"
            f" {MODEL_FLOPS.meaning} ({MODEL_FLOPS.source}); rows compare only where window and"
            " vocabulary are the same."
        )
    known = {name: any(machine_value(row, name) is not None for row in table) for name in _MEMORY}
    if any(known.values()):
        parts = [
            f"{header} ({name}): {meaning if known[name] else 'not measured'}"
            for name, (header, meaning) in _MEMORY.items()
        ]
        yield f"Memory, MiB; {'; '.join(parts)}."
    if any(row.scaling for row in table):
        yield (
            "Scaling: samples/s per device over that of the series' smallest device count;"
            " strong: same global batch, weak: global batch in proportion to the devices."
        )
    if any(row.statistics.basis == "incomplete" for row in table):
        yield f"{INCOMPLETE} measured over the steps trained before the run ended: not a result."
    yield from _of_baseline(table)


def _of_baseline(table: Sequence[Row]) -> Iterator[str]:
    compared = [(row, row.comparison) for row in table if row.comparison]
    for _, first in compared[:1]:
        yield (
            f"Baseline {first.axis}={first.value}: difference from the cell with the same other"
            " axes, and percent of it."
        )
    for row, comparison in compared:
        if comparison.note:
            mark, verb = (f"{DOUBTFUL} ", "") if comparison.differences else ("", "not compared: ")
            yield f"{mark}{printable(row.cell)}: {verb}{printable(comparison.note)}."
