"""The report's plots, by name; None without a run that has its quantity."""

from collections.abc import Sequence
from typing import Any, Literal

from runner.figures.measured_cell import MeasuredCell
from runner.figures.run_curves import loss_curve, step_times, validation_curve
from runner.report import curves, node_curves
from runner.report.bars import throughput_bars
from runner.report.points import memory_plot
from runner.tables.row import Row

_Sampled = tuple[str, str, Literal["busy", "power_w", "memory_mib"], str]
_SAMPLED: tuple[_Sampled, ...] = (  # title, axis, quantity, what a node's value is
    ("Utilisation", "busy, %", "busy", "Mean of the node's devices"),
    ("Power", "power, W", "power_w", "Mean of the node's devices"),
    ("Memory in use", "memory, MiB", "memory_mib", "The fullest of the node's devices"),
)


def plots(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> dict[str, Any]:
    """Draw the plots that the rows have data for."""
    runs = curves.curves_of(cells, table)
    return {
        "throughput": throughput_bars(table),
        "compared": any(row["comparison"] for row in table),
        "memory": memory_plot(table),
        "loss": curves.panels("loss", runs, loss_curve, shared=True),
        "validation": curves.panels("validation loss", runs, validation_curve, shared=True),
        "step_time": curves.panels(
            "step time, ms", runs, step_times, frame=curves.after_warmup_frame
        ),
        "by_node": node_curves.by_node(
            "step time, ms", "iteration", runs, node_curves.times_by_node
        ),
        "sampled": [
            {"title": title, "words": caption, "plot": plot}
            for title, label, quantity, caption in _SAMPLED
            if not (quantity == "busy" and node_curves.flat(runs, quantity))
            and (plot := node_curves.by_node(label, "s", runs, node_curves.sampled(quantity)))
        ],
    }
