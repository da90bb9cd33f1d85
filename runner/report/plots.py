"""The report's plots, by name; each is None where no run has what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.report import curves, nodes
from runner.report.bars import throughput
from runner.report.points import memory
from runner.tables.row import Row


def plots(table: Sequence[Row]) -> dict[str, Any]:
    """The plots that the rows have data for."""
    runs = curves.curves_of(table)
    return {
        "throughput": throughput(table),
        "compared": any(row.comparison for row in table),
        "memory": memory(table),
        "loss": curves.panels("loss", runs, curves.losses, shared=True),
        "step_time": curves.panels(
            "step time, ms", runs, curves.step_times, frame=curves.after_warmup_frame
        ),
        "by_node": nodes.by_node("step time, ms", "iteration", runs, nodes.times_by_node),
        "busy": nodes.by_node("busy, %", "s", runs, nodes.busy),
    }
