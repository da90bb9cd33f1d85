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

MOST = 4  # comparisons in a sentence each; of more, each setting has one for all its cells
MOST_MODELS = 2  # of which a page names the fastest cell
MOST_SETTINGS = 6  # of which a page says something
MOST_VALUES = 8  # of an axis, in the line on what was compared
# The framework's own is the better one; RSS has noise, and is not among them.
_MEMORY = ("memory_allocated_mib", "memory_reserved_mib", "memory_used_mib")
_LEAST_MEMORY = 1.0  # percent of a peak that is worth a word
_LEAST_SPEED = 0.05  # percent that is not 0.0 when written
_ALIKE = 1.005  # the fastest over the slowest, below which neither is named
_Compared = tuple[Row, BaselineComparison]


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
    if len(compared) > MOST:
        sentences = _by_setting(compared)
    else:
        names = _varying([row for row, _ in compared])
        several = len({row.record.campaign for row in table}) > 1
        sentences = [_sentence(row, comparison, names, several) for row, comparison in compared]
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


def _sentence(row: Row, comparison: BaselineComparison, names: Sequence[str], several: bool) -> str:
    axis = comparison.axis
    settings = {name: axis_text(row, name) for name in names if name != axis}
    beside = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    text = f"{axis} {axis_text(row, axis) or '–'} is {_speed(comparison)}"
    text += f" than {axis} {comparison.value}" if _is_significant(comparison) else ""
    text += f" with {beside}" if beside else ""
    text += f" in {printable(row.record.campaign)}" if several else ""
    text += _memory([comparison])
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


def _memory(cells: Sequence[BaselineComparison]) -> str:
    """Say how much less or more memory cells use, where all of them do so."""
    changes = []
    for cell in cells:
        difference = next((d for name in _MEMORY if (d := cell.differences.get(name))), None)
        if difference is None or abs(difference.percent) < _LEAST_MEMORY:
            return ""
        changes.append(difference.percent)
    if not changes or min(changes) < 0 < max(changes):
        return ""
    more = "more" if changes[0] > 0 else "less"
    return f"; it uses {_range([abs(change) for change in changes], 0)} % {more} memory"


def _range(values: Sequence[float], places: int) -> str:
    ends = (min(values), max(values))
    return " to ".join(dict.fromkeys(f"{end:.{places}f}" for end in ends))


def _by_setting(compared: Sequence[_Compared]) -> list[str]:
    """Sum up many comparisons: of each setting the range of what was told apart, and how often."""
    settings: dict[str, list[BaselineComparison]] = {}
    for row, comparison in compared:
        settings.setdefault(axis_text(row, comparison.axis) or "–", []).append(comparison)
    sentences = [_setting(name, cells) for name, cells in list(settings.items())[:MOST_SETTINGS]]
    more = len(settings) - MOST_SETTINGS
    if more > 0:
        axis, of = compared[0][1].axis, "setting has" if more == 1 else "settings have"
        sentences.append(f"{more} more {of} no sentence here: the table has every {axis}.")
    return sentences


def _setting(setting: str, cells: Sequence[BaselineComparison]) -> str:
    axis, count = cells[0].axis, f"of {counted(len(cells), 'cell')}"
    against = f"{axis} {cells[0].value}"
    differences = [cell.differences["samples_per_s"] for cell in cells if _is_significant(cell)]
    phrases = []
    for word, speeds in (
        ("faster", [speed for speed in differences if speed.percent > 0]),
        ("slower", [speed for speed in differences if speed.percent <= 0]),
    ):
        if speeds:
            most = " at most" if len(speeds) > 1 else ""
            sure = f"± {max(speed.half for speed in speeds):.1f}{most}"
            size = f"{_range([abs(speed.percent) for speed in speeds], 1)} % ({sure})"
            phrases.append(f"{size} {word} than {against} in {len(speeds)} {count}")
    untold = [cell.differences.get("samples_per_s") for cell in cells if not _is_significant(cell)]
    unsure = sum(speed is not None and speed.interval is None for speed in untold)
    alike = sum(speed is not None and speed.interval is not None for speed in untold)
    if alike:
        phrases.append(f"as fast as {against} within the noise in {alike} {count}")
    if unsure:
        phrases.append(f"without an interval in {unsure} {count}")
    if len(untold) > alike + unsure:
        phrases.append(f"not compared in speed in {len(untold) - alike - unsure} {count}")
    text = f"{axis} {setting} is {', '.join(phrases)}{_memory(cells)}"
    unlike = sum(cell.parity is not None and cell.parity.same is False for cell in cells)
    return text + (f"; its loss is another one in {unlike} {count}" if unlike else "") + "."


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
