"""What a campaign says in a few sentences: when, on what, what is fastest, what has no result.

Nothing is judged here: whether a difference is one is its interval's to say, and whether a figure
may be quoted the verdicts'.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from node.printable import printable
from node.time_words import lasts
from runner.base.clock import ZONE, minute
from runner.base.text import counted, listing
from runner.figures.measured_cell import MeasuredCell
from runner.report.groups import axes_of, labels, varying_of
from runner.tables.formatting import MISSING, axis_text, number_text
from runner.tables.row import Row, RowComparison, finished

MOST_MODELS = 2  # of which the fastest cell is named
MOST_VALUES = 8  # of an axis, in the line on what was compared
_ALIKE = 1.005  # the fastest over the slowest, below which neither is named


def compared_axes(table: Sequence[Row]) -> str:
    """Say what was compared: how many cells, and each axis with its values."""
    if not table:
        return ""
    cells = counted(len(table), "cell")
    sentences = []
    for name in varying_of(axes_of(table)):
        values = list(dict.fromkeys(filter(None, (axis_text(row, name) for row in table))))
        sentences.append(f"{name} {listing(values, MOST_VALUES)}")
    return f"{cells}: {'; '.join(sentences)}" if sentences else cells


def ran(cells: Sequence[MeasuredCell]) -> str:
    """Say when the runs began and ended (control node's clock, UTC), how many, on what."""
    records = [record for cell in cells for record in cell.records]
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
    """Write the sentences: the fastest, the difference from the baseline, what has no result.

    A speed is compared where no run had a fault: a faulted one has that of its last attempt alone.
    """
    unbroken = [row for row in table if not row["faulted"]]
    sound = {(row["campaign"], row["cell_id"]) for row in unbroken}
    compared = [
        (row, comparison)
        for row in unbroken
        if finished(row) and (comparison := row["comparison"]) and comparison["differences"]
        if (row["campaign"], comparison["base"]) in sound
    ]
    return [
        *_fastest(unbroken, table, 3 if compared else 2),
        *_against_baseline(compared),
        *_without_result(table),
    ]


def _fastest(rows: Sequence[Row], table: Sequence[Row], fewest: int) -> Iterator[str]:
    """Name the fastest of `rows`, as cells of the `table` are called, of each model with `fewest`
    of them or more.
    """
    called = dict(zip(map(id, table), labels(table), strict=True))
    models: dict[str, list[tuple[float, Row]]] = {}
    for row in rows:
        if finished(row) and (rate := row["figures"]["samples_per_s"]):
            model = json.dumps([row["model"], row["figures"]["tokens_per_sample"]])
            models.setdefault(model, []).append((rate, row))
    several = [rates for rates in models.values() if len(rates) >= fewest]
    for rates in several[:MOST_MODELS]:
        (least, slow), (most, fast) = (f(rates, key=lambda pair: pair[0]) for f in (min, max))
        if most / least < _ALIKE:
            yield f"{len(rates)} cells reach about {number_text(most)} samples/s."
        else:
            yield (
                f"{called[id(fast)]} is the fastest with {number_text(most)} samples/s,"
                f" {most / least:.2f} times {called[id(slow)]}, the slowest."
            )


def _against_baseline(compared: Sequence[tuple[Row, RowComparison]]) -> Iterator[str]:
    """Say of one cell how much faster or slower it is, of several how many are and by how much."""
    speeds = [
        (row, speed)
        for row, comparison in compared
        if (speed := comparison["differences"].get("samples_per_s"))
    ]
    if not speeds:
        return
    comparison = compared[0][1]
    against = f"{comparison['axis']} {comparison['value']}"
    phrases = []
    for word, is_more in (("faster", True), ("slower", False)):
        some = [speed for _, speed in speeds if speed["real"] and (speed["percent"] > 0) == is_more]
        if some:
            sizes = [abs(speed["percent"]) for speed in some]
            ends = dict.fromkeys(f"{end:.1f}" for end in (min(sizes), max(sizes)))
            half = max(speed["half"] or 0.0 for speed in some)
            phrases.append((len(some), f"{word} by {' to '.join(ends)} % (± {half:.1f})"))
    untold = [speed for _, speed in speeds if not speed["real"]]
    alike = sum(speed["half"] is not None for speed in untold)
    phrases += [(alike, "as fast within the noise")] * bool(alike)
    phrases += [(len(untold) - alike, "without an interval")] * (len(untold) > alike)
    unlike = sum(each["loss"] is not None and each["loss"]["same"] is False for _, each in compared)
    loss = f"; {unlike} with another loss" if unlike else ""
    if len(speeds) == 1:
        (row, speed), words = speeds[0], phrases[0][1]
        words = words if speed["real"] else f"{speed['percent']:+.1f} %, {words}"
        setting = axis_text(row, comparison["axis"]) or MISSING
        yield f"{comparison['axis']} {setting} against {against}: {words}{loss}."
    else:
        told = ", ".join(f"{count} {words}" for count, words in phrases)
        yield f"Of {len(speeds)} cells against {against}: {told}{loss}."


def _without_result(table: Sequence[Row]) -> Iterator[str]:
    missing = Counter(row["status"] for row in table if not finished(row))
    if missing:
        statuses = ", ".join(f"{count} {status}" for status, count in missing.items())
        cells = counted(len(table), "cell")
        yield f"{sum(missing.values())} of {cells} without a result: {statuses}."
