"""Step time, utilisation, power and memory of each node: a small plot a cell. Pure."""

from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any, Literal

from markupsafe import Markup
from matplotlib.axes import Axes

from node.printable import printable
from runner.figures.counted_steps import late_intervals, warmup_of
from runner.figures.run_curves import Points, thinned, times
from runner.report.cell_labels import labels
from runner.report.curves import FEW_POINTS, DrawnRun
from runner.report.groups import MOST_CURVES, MOST_PANELS
from runner.report.links import href
from runner.report.svg import FAINT, PANEL, draw, line_style, mark
from runner.terms.record import Record

NodePoints = dict[int, Points]
BUSY_PERCENT = 50.0  # from which on a device trains
FLAT_PERCENT = 10.0  # between which nine samples in ten lie: a plot would show nothing


def times_by_node(run: Record) -> NodePoints:
    """Return step times of each node, where several logged them; from the end of warm-up."""
    out = warmup_of(run)
    return {
        rank: times(run, late_intervals(steps, out))
        for rank, steps in run.measurement.by_node.items()
    }


def sampled(quantity: Literal["busy", "power_w", "memory_mib"]) -> Callable[[Record], NodePoints]:
    """Return a reader of (seconds, value) of each node that was sampled."""

    def read(run: Record) -> NodePoints:
        of_nodes = getattr(run.measurement, quantity)
        return {rank: list(points) for rank, points in of_nodes.items()}

    return read


def flat(curves: Sequence[DrawnRun], quantity: Literal["busy"]) -> bool:
    """Whether all nodes were about as busy whenever they trained."""
    values = [
        value
        for curve in curves
        for points in sampled(quantity)(curve.run).values()
        for _, value in points
        if value >= BUSY_PERCENT
    ]
    if len(values) < 2:
        return False
    cuts = quantiles(values, n=20)
    return cuts[-1] - cuts[0] <= FLAT_PERCENT


def by_node(
    title: str,
    along: str,
    curves: Sequence[DrawnRun],
    of: Callable[[Record], NodePoints],
) -> dict[str, Any] | None:
    """Draw one small plot a cell with a curve a node; None when no run has the quantity by node."""
    drawn = [(curve, nodes) for curve in curves if any((nodes := of(curve.run)).values())]
    if not drawn:
        return None
    ranks = sorted({rank for _, nodes in drawn for rank in nodes})
    few = ranks[:MOST_CURVES] if len(ranks) > MOST_CURVES else ranks
    called = labels([curve.row for curve in curves])
    names = {id(curve): name for curve, name in zip(curves, called, strict=True)}
    panels = [
        {
            "title": names[id(curve)],
            "svg": _node_curves(
                f"{title.split(',')[0]}-node-{number}", (title, along), curve, nodes
            ),
            "legend": [],
        }
        for number, (curve, nodes) in enumerate(drawn[:MOST_PANELS])
    ]
    legend = [{"label": f"node {rank}", "mark": mark(rank)} for rank in few]
    return {
        "panels": panels,
        "legend": legend if len(ranks) > 1 else [],
        "left_out": max(len(drawn) - MOST_PANELS, 0),
    }


def _node_curves(name: str, labels: tuple[str, str], curve: DrawnRun, nodes: NodePoints) -> Markup:
    """Draw the curves; nodes beyond the first MOST_CURVES are grey: an odd one shows all
    the same.
    """
    title, along = labels

    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        for index, (rank, points) in enumerate(sorted(nodes.items(), reverse=True)):
            if points:
                x, y = zip(*thinned(points, FEW_POINTS), strict=True)
                style = (
                    line_style(rank) if rank < MOST_CURVES else {"color": FAINT, "linewidth": 0.7}
                )
                (line,) = axes.plot(x, y, **style)
                line.set_gid(f"line{index}")
                titles[f"line{index}"] = f"{printable(curve.row['cell'])}: node {rank}"
                if link := href(curve.run.log):
                    line.set_url(link)
        axes.set(xlabel=along, ylabel=title)
        if along == "s":  # what was sampled is a share of what there is: from 0
            axes.set_ylim(0, 104 if title.endswith("%") else None)
        axes.grid(visible=False, axis="x")
        return titles

    label = f"{title} over {along}, one line per node"
    return draw(name.replace(" ", "-"), label, 190, paint, PANEL)
