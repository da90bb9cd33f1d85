"""What a campaign says in a few sentences: when, on what, what is faster, what has no result.

Nothing is judged here: whether a difference is one is its interval's to say, and whether a figure
may be quoted the verdicts'.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from node.printable import printable
from node.time_words import lasts
from runner.base.clock import ZONE, minute
from runner.base.text import counted, listing
from runner.report.cell_labels import labels
from runner.report.groups import axes_of
from runner.tables.formatting import axis_text, number_text
from runner.tables.row import BaselineComparison, Row

MOST_MODELS = 2  # of which a page names the fastest cell
MOST_VALUES = 8  # of an axis, in the line on what was compared
# The framework's own is the better one; RSS has noise, and is not among them.
_MEMORY = ("memory_allocated_mib", "memory_reserved_mib", "memory_used_mib")
_LEAST_MEMORY = 1.0  # percent of a peak that is worth a word
_LEAST_SPEED = 0.05  # percent that is not 0.0 when written
_ALIKE = 1.005  # the fastest over the slowest, below which neither is named


def compared_axes(table: Sequence[Row]) -> str:
    """Say what was compared: how many cells, and each axis with its values."""
    if not table:
        return ""
    cells = counted(len(table), "cell")
    sentences = []
    for name in _varying(table):
        values = list(dict.fromkeys(filter(None, (axis_text(row, name) for row in table))))
        sentences.append(f"{name} {listing(values, MOST_VALUES)}")
    return f"{cells}: {'; '.join(sentences)}" if sentences else cells


def ran(table: Sequence[Row]) -> str:
    """Say when the runs began and ended (control node's clock, UTC), how many, on what."""
    records = [record for row in table for record in row.records]
    begun = [(record.began, record.wall_s) for record in records if record.began is not None]
    parts = []
    if begun:
        begin, end = min(at for at, _ in begun), max(at + took for at, took in begun)
        took = lasts(sum(took for _, took in begun))
        parts.append(f"{minute(begin)} to {minute(end, begin)} {ZONE}")
        parts.append(f"{counted(len(begun), 'run')}, {took} of running")
    imported = sum(record.imported for record in records)
    if imported:
        parts.append(f"{counted(imported, 'imported log')}, not run by bench")
    hosts = {host for record in records for host in record.hosts}
    devices = dict.fromkeys(record.device or record.device_kind for record in records)
    kinds = ", ".join(printable("CPU" if kind == "cpu" else kind) for kind in devices if kind)
    if hosts:
        parts.append(f"{counted(len(hosts), 'node')}{kinds and f' with {kinds}'}")
    elif kinds:
        parts.append(f"on {kinds}")
    return "; ".join(parts)


def conclusion(table: Sequence[Row]) -> list[str]:
    """Write the sentences, the comparisons first; none for a table without a result.

    A speed is compared where no run had a fault: a faulted one has that of its last attempt alone.
    """
    unbroken = [row for row in table if not row.faulted]
    compared = [
        (row, row.comparison)
        for row in unbroken
        if row.finished and row.comparison and row.comparison.differences
        if not (row.comparison.base and row.comparison.base.faulted)
    ]
    if len(compared) > 1:
        sentences = [_summed_up([comparison for _, comparison in compared])]
    else:
        sentences = [_sentence(row, comparison) for row, comparison in compared]
    return [
        *sentences,
        *_fastest(unbroken, table, fewest=3 if sentences else 2),
        *_without_result(table),
    ]


def _varying(table: Sequence[Row]) -> list[str]:
    """Return the axes in which these cells differ."""
    axes = axes_of(table)
    names = dict.fromkeys(name for cell_axes in axes for name in cell_axes)
    return [name for name in names if len({cell_axes.get(name) for cell_axes in axes}) > 1]


def _sentence(row: Row, comparison: BaselineComparison) -> str:
    axis = comparison.axis
    text = f"{axis} {axis_text(row, axis) or '–'} is {_speed(comparison)}"
    text += f" than {axis} {comparison.value}" if _is_significant(comparison) else ""
    text += _memory(comparison)
    if comparison.parity and comparison.parity.same is False:
        text += f"; its loss is another one from iteration {comparison.parity.at} on"
    return f"{text}."


def _is_significant(comparison: BaselineComparison) -> bool:
    speed = comparison.differences.get("samples_per_s")
    return speed is not None and speed.real


def _speed(comparison: BaselineComparison) -> str:
    speed = comparison.differences.get("samples_per_s")
    against = f"{comparison.axis} {comparison.value}"
    if speed is None:
        return f"not compared in speed with {against}"
    if speed.real:
        word = "faster" if speed.percent > 0 else "slower"
        if abs(speed.percent) < _LEAST_SPEED:
            return f"less than 0.1 % {word}"
        return f"{abs(speed.percent):.1f} % (± {speed.half:.1f}) {word}"
    if speed.interval is None:
        why = speed.rate.missing if speed.rate else ""
        return f"{speed.percent:+.1f} % in speed against {against}, significance unknown: {why}"
    change = f"{speed.percent:+.1f} % ± {speed.half:.1f}"
    return f"as fast as {against} within the noise ({change})"


def _memory(comparison: BaselineComparison) -> str:
    """Say how much less or more memory a cell uses, where that is worth a word."""
    difference = next((d for name in _MEMORY if (d := comparison.differences.get(name))), None)
    if difference is None or abs(difference.percent) < _LEAST_MEMORY:
        return ""
    more = "more" if difference.percent > 0 else "less"
    return f"; it uses {abs(difference.percent):.0f} % {more} memory"


def _summed_up(comparisons: Sequence[BaselineComparison]) -> str:
    """Say of many cells how many are faster and slower, and by how much."""
    speeds = [comparison.differences.get("samples_per_s") for comparison in comparisons]
    told = [speed for speed in speeds if speed is not None and speed.real]
    untold = [speed for speed in speeds if speed is not None and not speed.real]
    phrases = []
    for word, some in (
        ("faster", [speed for speed in told if speed.percent > 0]),
        ("slower", [speed for speed in told if speed.percent <= 0]),
    ):
        if some:
            sizes = [abs(speed.percent) for speed in some]
            ends = dict.fromkeys(f"{end:.1f}" for end in (min(sizes), max(sizes)))
            half = max(speed.half for speed in some)
            phrases.append(f"{len(some)} {word} by {' to '.join(ends)} % (± {half:.1f} at most)")
    alike = sum(speed.interval is not None for speed in untold)
    for count, words in (
        (alike, "as fast within the noise"),
        (len(untold) - alike, "without an interval"),
        (len(speeds) - len(told) - len(untold), "not compared in speed"),
    ):
        phrases += [f"{count} {words}"] * bool(count)
    unlike = sum(item.parity is not None and item.parity.same is False for item in comparisons)
    phrases += [f"{unlike} with another loss"] * bool(unlike)
    against = f"{comparisons[0].axis} {comparisons[0].value}"
    return f"Of {len(comparisons)} cells beside {against}: {', '.join(phrases)}."


def _fastest(rows: Sequence[Row], table: Sequence[Row], *, fewest: int) -> list[str]:
    """Name the fastest and the slowest of `rows` of each model that has `fewest` of them or more;
    as cells of the `table` are called.
    """
    tasks: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row.finished and row.samples_per_s:
            tasks.setdefault((row.record.model, row.record.sample_length), []).append(row)
    called = _names(table)
    several = [rows for rows in tasks.values() if len(rows) >= fewest]
    sentences = [text for rows in several[:MOST_MODELS] for text in _fastest_of(rows, called)]
    if len(several) > MOST_MODELS:
        sentences.append(f"{len(several) - MOST_MODELS} more models have no sentence here.")
    return sentences


def _fastest_of(rows: Sequence[Row], called: Mapping[int, str]) -> list[str]:
    rates = [(row.samples_per_s or 0.0, row) for row in rows]
    (least, slow), (most, fast) = (f(rates, key=lambda pair: pair[0]) for f in (min, max))
    if most / least < _ALIKE:
        every = "Both" if len(rates) == 2 else f"All {len(rates)}"
        return [f"{every} cells with a result reach about {number_text(most)} samples/s."]
    return [
        f"{called[id(fast)]} is the fastest with {number_text(most)} samples/s,"
        f" {most / least:.2f} times {called[id(slow)]}, the slowest."
    ]


def _names(table: Sequence[Row]) -> Mapping[int, str]:
    """Name rows, by their identity."""
    return dict(zip(map(id, table), labels(table), strict=True))


def _without_result(table: Sequence[Row]) -> list[str]:
    missing = Counter(row.status for row in table if not row.finished)
    if not missing:
        return []
    statuses = ", ".join(f"{count} {status}" for status, count in missing.items())
    if len(table) == 1:
        return [f"The one cell has no result: {table[0].status}."]
    has = "has" if sum(missing.values()) == 1 else "have"
    return [f"{sum(missing.values())} of {len(table)} cells {has} no result: {statuses}."]
