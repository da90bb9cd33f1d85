"""What failures and checkpoints cost, for the page: bars, timelines. Pure."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from node.printable import printable
from node.time_words import lasts
from runner.figures.goodput import PARTS, Goodput, Mean, spent_in
from runner.figures.measured_cell import MeasuredCell
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import Row

MOST_RUNS = 20  # of a cell whose timelines are drawn


def failures(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> dict[str, Any] | None:
    """Return the section's data; None where no cell has checkpoints, faults or recovery."""
    rows = [(cell, cell.goodput) for cell in cells if cell.goodput is not None]
    if not rows:
        return None
    return {
        "parts": PARTS,
        "bars": [_bar(row, goodput) for row, goodput in rows],
        "lines": [line for row, _ in rows for line in _timelines(row)],
        "saves": [_saves(row, goodput) for row, goodput in rows if goodput.stall_s],
        "resumed": [
            {"cell": printable(row["cell"]), **row["resumed"]} for row in table if row["resumed"]
        ],
    }


def _bar(cell: MeasuredCell, goodput: Goodput) -> dict[str, Any]:
    total_s = sum(goodput.parts.values())
    return {
        "cell": printable(cell.record.cell),
        "percent": number_text(goodput.percent, 1),
        "total": lasts(goodput.total_s),
        "blocks": [
            {
                "part": category,
                "width": round(100 * seconds / total_s, 3),
                "title": f"{PARTS[category]}: {seconds:.2f} s ({100 * seconds / total_s:.1f} %)",
            }
            for category, seconds in goodput.parts.items()
            if total_s and seconds > 0
        ],
    }


def _timelines(cell: MeasuredCell) -> Iterator[dict[str, Any]]:
    """Draw the runs of a cell that had more than one attempt or session."""
    records = [record for record in cell.records if record.story and len(record.story.sessions) > 1]
    for record in records[:MOST_RUNS]:
        assert record.story is not None
        spent = spent_in(record.story)
        total_s = sum(items.seconds for items in spent)
        blocks, at = [], 0.0
        for category, group in groupby(spent, key=lambda items: items.category):
            seconds = sum(items.seconds for items in group)
            blocks.append(
                {
                    "part": category,
                    "left": round(100 * at / total_s, 3),
                    "width": round(100 * seconds / total_s, 3),
                    "title": f"{PARTS[category]}: {seconds:.2f} s, from {at:.1f} s on",
                }
            )
            at += seconds
        begun = record.story.attempts[0].began
        yield {
            "cell": printable(cell.record.cell),
            "repeat": record.repeat,
            "blocks": blocks,
            "faults": [
                {
                    "left": round(min(100.0, max(0.0, 100 * (fault.at - begun) / total_s)), 3),
                    "title": f"{fault.kind} on node {fault.node}, {fault.at - begun:.1f} s",
                }
                for fault in record.story.faults
            ],
        }


def _saves(cell: MeasuredCell, goodput: Goodput) -> dict[str, Any]:
    rate = goodput.bytes_per_s
    return {
        "cell": printable(cell.record.cell),
        "count": goodput.stall_s.count if goodput.stall_s else 0,
        "stall": _mean_text(goodput.stall_s),
        "durable": _mean_text(goodput.durable_s),
        "mib": number_text((goodput.checkpoint_bytes or 0) / 2**20, 1),
        "rate": MISSING if rate is None else number_text(rate / 2**20, 1),
        "load": _mean_text(goodput.load_s),
    }


def _mean_text(goodput: Mean | None) -> str:
    if goodput is None:
        return MISSING
    places = 2 if goodput.value < 100 else 1
    half = "" if goodput.half is None else f" ±{number_text(goodput.half, places)}"
    return number_text(goodput.value, places) + half
