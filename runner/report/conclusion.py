"""What a campaign says, in a few sentences made from its numbers: when, on what, what is faster.

Nothing is judged here: whether a difference is one is its interval's to say, and whether a figure
may be quoted the verdicts'.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from runner.report.clock import clock
from runner.report.groups import axes_of
from runner.tables.formatting import axis_text
from runner.tables.row import BaselineComparison, Difference, Row

MOST = 6  # sentences of comparisons; of more, each setting has one for all its cells
_MEMORY = ("memory_allocated_mib", "memory_used_mib")  # the framework's own is the better one
_LEAST_MEMORY = 1.0  # percent of a peak that is worth a word


def ran(table: Sequence[Row]) -> str:
    """Say when the runs began and ended by the control node's clock, how many, and on what."""
    records = [record for row in table for record in row.records]
    begun = [(record.began, record.wall_s) for record in records if record.began]
    parts = []
    if begun:
        first, last = min(at for at, _ in begun), max(at + took for at, took in begun)
        parts.append(f"{clock(first)} to {clock(last, first)}")
    runs = sum(1 for record in records if record.began)
    if runs:
        hours = sum(took for _, took in begun) / 3600
        parts.append(f"{runs} run{'s' * (runs > 1)}, {_length(hours)}")
    hosts = {host for record in records for host in record.hosts}
    devices = dict.fromkeys(record.device or record.device_kind for record in records)
    kinds = ", ".join(filter(None, devices)).replace("cpu", "CPU")
    if hosts:
        parts.append(f"{len(hosts)} node{'s' * (len(hosts) > 1)}{kinds and f' with {kinds}'}")
    return "; ".join(parts)


def _length(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours of running"
    return f"{hours * 60:.0f} minutes of running" if hours >= 1 / 30 else "under two minutes"


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
        others = _other_axes(table)
        said = [_sentence(row, comparison, others[row.cell]) for row, comparison in compared]
    return [*(said or _fastest(table)), *_without_result(table)]


def _other_axes(table: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Return what of each cell's axes tells it from others, by the cell's name."""
    axes = axes_of(table)
    varying = [n for n in axes[0] if len({each.get(n) for each in axes}) > 1] if axes else []
    return {
        row.cell: {name: each[name] for name in varying if name in each}
        for row, each in zip(table, axes, strict=True)
    }


def _sentence(row: Row, comparison: BaselineComparison, others: Mapping[str, str]) -> str:
    axis = comparison.axis
    beside = ", ".join(f"{name} {value}" for name, value in others.items() if name != axis)
    text = f"{axis} {axis_text(row, axis) or '–'} is {_speed(comparison)}"
    text += f" than {axis} {comparison.value}" if _told(comparison) else ""
    if beside:
        text += f" with {beside}"
    memory = next((d for name in _MEMORY if (d := comparison.differences.get(name))), None)
    if memory and abs(memory.percent) >= _LEAST_MEMORY:
        more = "more" if memory.percent > 0 else "less"
        text += f"; it uses {abs(memory.percent):.0f} % {more} memory"
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
        return f"{_percent(speed)} {'faster' if speed.percent > 0 else 'slower'}"
    if speed.interval is None:
        return f"{speed.percent:+.1f} % in speed against {against}, from too few steps to tell"
    change = f"{speed.percent:+.1f} % ± {_half(speed):.1f}"
    return f"not to be told apart in speed from {against} ({change})"


def _percent(speed: Difference) -> str:
    return f"{abs(speed.percent):.1f} % (± {_half(speed):.1f})"


def _half(difference: Difference) -> float:
    low, high = difference.interval or (0.0, 0.0)
    return (high - low) / 2


def _by_setting(compared: Sequence[tuple[Row, BaselineComparison]]) -> list[str]:
    """Sum up many comparisons: of each setting the range of what was told apart, and how often."""
    settings: dict[str, list[BaselineComparison]] = {}
    for row, comparison in compared:
        settings.setdefault(axis_text(row, comparison.axis) or "–", []).append(comparison)
    said = []
    for setting, cells in list(settings.items())[:MOST]:
        against = f"{cells[0].axis} {cells[0].value}"
        told = [cell.differences["samples_per_s"].percent for cell in cells if _told(cell)]
        words = []
        for word, some in (
            ("faster", [percent for percent in told if percent > 0]),
            ("slower", [-percent for percent in told if percent < 0]),
        ):
            if some:
                span = " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(some), max(some))))
                words.append(f"{span} % {word} than {against} in {len(some)} of {len(cells)} cells")
        rest = len(cells) - len(told)
        if rest:
            words.append(f"not to be told apart in {rest}")
        said.append(f"{cells[0].axis} {setting} is {', '.join(words)}.")
    return said


def _fastest(table: Sequence[Row]) -> list[str]:
    """Name the fastest and the slowest cell where nothing is compared with a baseline."""
    rates = [
        (rate.median, row)
        for row in table
        if row.finished and (rate := row.statistics.samples_per_s) is not None
    ]
    if len(rates) < 2:
        return []
    (least, slow), (most, fast) = (f(rates, key=lambda pair: pair[0]) for f in (min, max))
    return [
        f"{fast.cell} is the fastest with {most:.4g} samples/s, {most / least:.2f} times"
        f" {slow.cell}, the slowest."
    ]


def _without_result(table: Sequence[Row]) -> list[str]:
    missing = Counter(row.status for row in table if not row.finished)
    if not missing:
        return []
    words = ", ".join(f"{count} {status}" for status, count in missing.items())
    return [f"{sum(missing.values())} of {len(table)} cells have no result: {words}."]
