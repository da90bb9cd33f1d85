"""What a campaign says, in a few sentences made from its numbers: when, on what, what is faster.

Nothing is judged here: whether a difference is one is its interval's to say, and whether a figure
may be quoted the verdicts'.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from node.printable import printable
from node.time_words import lasts
from runner.base.clock import ZONE, minute
from runner.base.text import counted, some
from runner.report.groups import axes_of
from runner.tables.formatting import axis_text, number_text
from runner.tables.row import BaselineComparison, Row

MOST = 4  # comparisons in a sentence each; of more, each setting has one for all its cells
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
    said = []
    for name in _varying(table):
        values = list(dict.fromkeys(filter(None, (axis_text(row, name) for row in table))))
        said.append(f"{name} {some(values, MOST_VALUES)}")
    return f"{cells}: {'; '.join(said)}" if said else cells


def ran(table: Sequence[Row]) -> str:
    """Say when the runs began and ended (control node's clock, UTC), how many, on what."""
    records = [record for row in table for record in row.records]
    begun = [(record.began, record.wall_s) for record in records if record.began is not None]
    parts = []
    if begun:
        first, last = min(at for at, _ in begun), max(at + took for at, took in begun)
        took = lasts(sum(took for _, took in begun))
        parts.append(f"{minute(first)} to {minute(last, first)} {ZONE}")
        parts.append(f"{counted(len(begun), 'run')}, {took} of running")
    imported = sum(record.imported for record in records)
    if imported:
        parts.append(f"{counted(imported, 'imported log')}, which nobody here ran")
    hosts = {host for record in records for host in record.hosts}
    named = dict.fromkeys(record.device or record.device_kind for record in records)
    kinds = ", ".join(printable("CPU" if kind == "cpu" else kind) for kind in named if kind)
    if hosts:
        parts.append(f"{counted(len(hosts), 'node')}{kinds and f' with {kinds}'}")
    elif kinds:
        parts.append(f"on {kinds}")
    return "; ".join(parts)


def conclusion(table: Sequence[Row]) -> list[str]:
    """Write the sentences, the comparisons first; none for a table without a result."""
    compared = [
        (row, row.comparison)
        for row in table
        if row.finished and row.comparison and row.comparison.differences
    ]
    if len(compared) > MOST:
        said = _by_setting(compared)
    else:
        names = _varying([row for row, _ in compared])
        several = len({row.record.campaign for row in table}) > 1
        said = [_sentence(row, comparison, names, several) for row, comparison in compared]
    return [*(said or _fastest(table)), *_not_compared(table), *_without_result(table)]


def _varying(table: Sequence[Row]) -> list[str]:
    """Return the axes in which these cells differ."""
    axes = axes_of(table)
    names = dict.fromkeys(name for each in axes for name in each)
    return [name for name in names if len({each.get(name) for each in axes}) > 1]


def _sentence(row: Row, comparison: BaselineComparison, names: Sequence[str], several: bool) -> str:
    axis = comparison.axis
    own = {name: axis_text(row, name) for name in names if name != axis}
    beside = ", ".join(f"{name} {value}" for name, value in own.items() if value is not None)
    text = f"{axis} {axis_text(row, axis) or '–'} is {_speed(comparison)}"
    text += f" than {axis} {comparison.value}" if _told(comparison) else ""
    text += f" with {beside}" if beside else ""
    text += f" in {printable(row.record.campaign)}" if several else ""
    text += _memory([comparison])
    if comparison.parity and comparison.parity.same is False:
        text += f"; its loss is another one from iteration {comparison.parity.at} on"
    return f"{text}."


def _told(comparison: BaselineComparison) -> bool:
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
        return f"{speed.percent:+.1f} % in speed against {against}, but nobody can tell: {why}"
    change = f"{speed.percent:+.1f} % ± {speed.half:.1f}"
    return f"not to be told apart in speed from {against} ({change})"


def _memory(cells: Sequence[BaselineComparison]) -> str:
    """Say how much less or more memory cells use, where all of them do so."""
    changes = []
    for cell in cells:
        found = next((d for name in _MEMORY if (d := cell.differences.get(name))), None)
        if found is None or abs(found.percent) < _LEAST_MEMORY:
            return ""
        changes.append(found.percent)
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
    said = [_setting(name, cells) for name, cells in list(settings.items())[:MOST_SETTINGS]]
    more = len(settings) - MOST_SETTINGS
    if more > 0:
        axis, of = compared[0][1].axis, "setting has" if more == 1 else "settings have"
        said.append(f"{more} more {of} no sentence here: the table has every {axis}.")
    return said


def _setting(setting: str, cells: Sequence[BaselineComparison]) -> str:
    axis, count = cells[0].axis, f"of {counted(len(cells), 'cell')}"
    against = f"{axis} {cells[0].value}"
    told = [cell.differences["samples_per_s"] for cell in cells if _told(cell)]
    words = []
    for word, speeds in (
        ("faster", [speed for speed in told if speed.percent > 0]),
        ("slower", [speed for speed in told if speed.percent <= 0]),
    ):
        if speeds:
            most = " at most" if len(speeds) > 1 else ""
            sure = f"± {max(speed.half for speed in speeds):.1f}{most}"
            size = f"{_range([abs(speed.percent) for speed in speeds], 1)} % ({sure})"
            words.append(f"{size} {word} than {against} in {len(speeds)} {count}")
    untold = [cell.differences.get("samples_per_s") for cell in cells if not _told(cell)]
    unsure = sum(speed is not None and speed.interval is None for speed in untold)
    alike = sum(speed is not None and speed.interval is not None for speed in untold)
    if alike:
        words.append(f"not to be told apart in speed from {against} in {alike} {count}")
    if unsure:
        words.append(f"without an interval in {unsure} {count}")
    if len(untold) > alike + unsure:
        words.append(f"not compared in speed in {len(untold) - alike - unsure} {count}")
    text = f"{axis} {setting} is {', '.join(words)}{_memory(cells)}"
    others = sum(cell.parity is not None and cell.parity.same is False for cell in cells)
    return text + (f"; its loss is another one in {others} {count}" if others else "") + "."


def _fastest(table: Sequence[Row]) -> list[str]:
    """Name the fastest and the slowest cell where nothing is compared with a baseline."""
    rates = [
        (rate.value, row)
        for row in table
        if row.finished and (rate := row.statistics.samples_per_s) is not None
    ]
    if len(rates) < 2:
        return []
    (least, slow), (most, fast) = (f(rates, key=lambda pair: pair[0]) for f in (min, max))
    named = _names(table)
    if most / least < _ALIKE:
        every = "Both" if len(rates) == 2 else f"All {len(rates)}"
        return [f"{every} cells with a result reach about {number_text(most)} samples/s."]
    said = [
        f"{named[id(fast)]} is the fastest with {number_text(most)} samples/s,"
        f" {most / least:.2f} times {named[id(slow)]}, the slowest."
    ]
    if len({row.record.world_size for _, row in rates}) > 1:
        best = max((row for _, row in rates), key=lambda row: row.samples_per_s_per_device or 0.0)
        each = number_text(best.samples_per_s_per_device)
        said.append(f"A device does most in {named[id(best)]}: {each} samples/s.")
    return said


def _names(table: Sequence[Row]) -> Mapping[int, str]:
    """Name rows, by their identity: with their campaign where two have one name."""
    often = Counter(row.cell for row in table)
    return {
        id(row): printable(
            f"{row.cell} of {row.record.campaign}" if often[row.cell] > 1 else row.cell
        )
        for row in table
    }


def _not_compared(table: Sequence[Row]) -> list[str]:
    """Say how many results have no baseline to be compared with, and why not."""
    left = [
        c
        for row in table
        if row.finished
        and (c := row.comparison) is not None
        and not c.is_baseline
        and not c.differences
    ]
    failed = sum(c.base is not None and not c.base.finished for c in left)
    alone = sum(c.base is None for c in left)
    against = f"{left[0].axis} {left[0].value}" if left else ""
    said = []
    if failed:
        said.append(f"{_cells(failed)} not compared: {against} has no result beside {_it(failed)}.")
    if alone:
        said.append(
            f"{_cells(alone)} not compared: no one cell of {against} is else like {_it(alone)}."
        )
    return said


def _cells(count: int) -> str:
    return f"{count} cell{'s are' if count > 1 else ' is'}"


def _it(count: int) -> str:
    return "them" if count > 1 else "it"


def _without_result(table: Sequence[Row]) -> list[str]:
    missing = Counter(row.status for row in table if not row.finished)
    if not missing:
        return []
    words = ", ".join(f"{count} {status}" for status, count in missing.items())
    if len(table) == 1:
        return [f"The one cell has no result: {table[0].status}."]
    has = "has" if sum(missing.values()) == 1 else "have"
    return [f"{sum(missing.values())} of {len(table)} cells {has} no result: {words}."]
