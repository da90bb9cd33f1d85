"""The report's plots, by name; None without a run that has its quantity.

Bars are HTML: they fit any width, and their numbers link to logs.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from statistics import quantiles
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from pandas import DataFrame

from node.printable import printable
from runner.figures.counted_steps import late_intervals, warmup_of
from runner.figures.curves import (
    Points,
    loss_curve,
    step_times,
    thinned,
    times,
    validation_curve,
)
from runner.figures.measured_cell import MeasuredCell
from runner.report.groups import MOST_CURVES, MOST_PANELS, Group, axes_of, groups, labels, places
from runner.report.links import href
from runner.report.svg import GREY, IDEAL, Kind, draw, mark
from runner.tables.formatting import number_text
from runner.tables.row import Row, axis_names, finished, log_of
from runner.terms.memory import MEMORY
from runner.terms.record import Record

POINTS = 150  # of a curve; more look the same
BUSY_PERCENT = 50.0  # from which on a device trains
FLAT_PERCENT = 10.0  # between which nine samples in ten lie: a plot would show nothing
_TIME, _RATE = "step time, ms", "samples_per_s_per_device"
_APART = "One plot per cell, one curve per node: a slow node stands apart."
_Sampled = Literal["busy", "power_w", "memory_mib"]
_SAMPLED: tuple[tuple[str, str, _Sampled, str], ...] = (  # title, axis, quantity, a node's value
    ("Utilisation", "busy, %", "busy", "Mean of the node's devices"),
    ("Power", "power, W", "power_w", "Mean of the node's devices"),
    ("Memory in use", "memory, MiB", "memory_mib", "The fullest of the node's devices"),
)


class DrawnRun(NamedTuple):
    """One run's curves stand for its cell."""

    row: Row
    run: Record


def plots(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> dict[str, Any]:
    """Draw the plots that the rows have data for."""
    runs = [
        DrawnRun(row, run)
        for cell, row in zip(cells, table, strict=True)
        if (run := next((r for r in cell.statistics.runs if r.measurement.intervals), None))
    ]
    return {
        "throughput": throughput_bars(table),
        "compared": any(row["comparison"] for row in table),
        "memory": memory(table),
        "loss": by_cell("loss", runs, loss_curve),
        "validation": by_cell("validation loss", runs, validation_curve),
        "step_time": by_cell(_TIME, runs, step_times, _after_warmup),
        "by_node": [
            {"title": title, "words": f"{_APART} {words}.", "plot": plot}
            for title, words, plot in _by_nodes(runs)
            if plot
        ],
    }


def _by_nodes(runs: Sequence[DrawnRun]) -> Iterable[tuple[str, str, dict[str, Any] | None]]:
    yield "Step time by node", "After warm-up", by_node(_TIME, "iteration", runs, _late_times)
    for title, axis, quantity, words in _SAMPLED:
        if quantity != "busy" or not _flat(runs):
            limits = {"ylim": (0, 104 if quantity == "busy" else None)}  # a share of what there is
            plot = by_node(axis, "s", runs, _sampled(quantity), **limits)
            yield title, f"{words}, from its first sample", plot


def memory(table: Sequence[Row]) -> dict[str, Any] | None:
    """Draw samples/s of a device over memory, a point a cell; None without two cells to set apart.

    Memory is the best known figure of it that two rows have.
    """
    ended = [row["figures"] for row in table if finished(row)]
    both = (key for key in MEMORY if sum(bool(f[key] and f[_RATE]) for f in ended) > 1)
    if (key := next(both, None)) is None:
        return None
    rows = [r for r in table if finished(r) and r["figures"][key] and r["figures"][_RATE]]
    axis, values = telling_axis(rows)
    kinds = list(dict.fromkeys(values))
    x, y = f"memory {MEMORY[key].title}, MiB", "samples/s per device"
    points = [(row["figures"][key], row["figures"][_RATE]) for row in rows]
    titles = [f"{number_text(used, 0)} MiB, {number_text(speed)} {y}" for used, speed in points]
    frame = DataFrame(points, columns=[x, y])
    frame["cell"] = frame.index
    frame["title"] = [f"{printable(r['cell'])}: {t}" for r, t in zip(rows, titles, strict=True)]
    frame["href"] = [href(log_of(row)) or "" for row in rows]
    frame["place"] = [kinds.index(value) for value in values]
    xlim, ylim = ((0, 1.06 * frame[name].max()) for name in (x, y))
    svg = draw(frame, x, y, "cell", name="memory", kind="point", xlim=xlim, ylim=ylim)
    named = {f"{axis} {kind}": at for at, kind in enumerate(kinds)} if axis else {}
    panel = {"title": "", "svg": svg, "legend": []}
    return {"panels": [panel], "legend": legend(named), "left_out": 0}


def telling_axis(rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Find the first axis with a few values, by which points are coloured."""
    row_axes = axes_of(rows)
    for name in axis_names(rows):
        values = [axes.get(name, "–") for axes in row_axes]
        if 1 < len(set(values)) <= MOST_CURVES:
            return name, values
    return "", [""] * len(rows)


def legend(named: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the entries of a legend, of names with their places."""
    return [{"label": name, "mark": mark(place)} for name, place in named.items() if name]


def panels(
    frame: DataFrame,
    x: str,
    y: str,
    by: str,
    interval: tuple[str, str] | None = None,
    *,
    axes: Sequence[Mapping[str, str]],
    settings: Callable[[Sequence[int]], Mapping[str, Any]],
    kind: Kind = "line",
) -> dict[str, Any]:
    """Draw a plot a group of those members that `axes` has, in as few plots as can be read.

    Their places in `axes` are in the column `member`; `ideal` marks rows of no member's own.
    `settings` has those of `draw` for some members.
    """
    grouped = groups(axes)
    of_members, by_name = places(grouped)
    drawn = []
    for number, group in enumerate(grouped[:MOST_PANELS]):
        rows = frame[frame["member"].isin(group.members)]
        colour = rows["member"].map(of_members)
        rows = rows.assign(place=colour.where(~rows["ideal"], IDEAL) if "ideal" in rows else colour)
        name = re.sub(r"[ /]", "-", f"{y.split(',')[0]}-{number}")
        more = {"name": name, "small": len(grouped) > 1, "kind": kind, **settings(group.members)}
        svg = draw(rows, x, y, by, interval, **more)
        own = dict(zip(group.names, map(of_members.__getitem__, group.members), strict=True))
        drawn.append({"title": group.label, "svg": svg, "legend": [] if by_name else legend(own)})
    return {
        "panels": drawn,
        "legend": legend(by_name) if len(axes) > 1 else [],
        "left_out": sum(len(group.members) for group in grouped[MOST_PANELS:]),
    }


def by_cell(
    title: str,
    runs: Sequence[DrawnRun],
    of: Callable[[Record], Points],
    limits: Callable[[Sequence[Record]], Any] | None = None,
) -> dict[str, Any] | None:
    """Draw a quantity over iterations, one curve a cell; None when no run has the quantity.

    Without `limits` all panels have the same scale, so that they can be compared.
    """
    drawn = [(run, points) for run in runs if (points := of(run.run))]
    if not drawn:
        return None
    axes = axes_of([run.row for run, _ in drawn])
    values = [y for _, points in drawn for _, y in points]
    low, high = min(values), max(values)
    shared = (low - 0.04 * (high - low), high + 0.04 * (high - low))

    def settings(members: Sequence[int]) -> dict[str, Any]:
        if limits is not None:
            return {"ylim": limits([drawn[member][0].run for member in members])}
        return {"ylim": shared} if high > low else {}

    frame = _frame("iteration", title, "cell", ((at, "", *one) for at, one in enumerate(drawn)))
    frame["member"] = frame["cell"]
    return panels(frame, "iteration", title, "cell", axes=axes, settings=settings)


def by_node(
    title: str,
    along: str,
    runs: Sequence[DrawnRun],
    of: Callable[[Record], Mapping[int, Points]],
    **settings: Any,
) -> dict[str, Any] | None:
    """Draw one small plot a cell with a curve a node; None when no run has the quantity by node.

    Nodes beyond the first MOST_CURVES are grey: an odd one shows all the same.
    """
    called = labels([run.row for run in runs])
    drawn = [
        (n, r, nodes)
        for n, r in zip(called, runs, strict=True)
        if any((nodes := of(r.run)).values())
    ]
    if not drawn:
        return None
    shown = []
    for number, (name, run, nodes) in enumerate(islice(drawn, MOST_PANELS)):
        curves = ((n, f": node {n}", run, nodes[n]) for n in sorted(nodes, reverse=True))
        frame = _frame(along, title, "node", curves)
        frame["place"] = frame["node"].where(frame["node"] < MOST_CURVES, GREY)
        id = f"{title.split(',')[0]}-node-{number}".replace(" ", "-")
        svg = draw(frame, along, title, "node", name=id, small=True, **settings)
        shown.append({"title": name, "svg": svg, "legend": []})
    ranks = sorted({rank for _, _, nodes in drawn for rank in nodes})
    named = {f"node {rank}": rank for rank in ranks[:MOST_CURVES]} if len(ranks) > 1 else {}
    left_out = max(len(drawn) - MOST_PANELS, 0)
    return {"panels": shown, "legend": legend(named), "left_out": left_out}


def _frame(
    x: str,
    y: str,
    by: str,
    curves: Iterable[tuple[int, str, DrawnRun, Points]],
) -> DataFrame:
    """Return a row per point of curves, thinned: (its number, what its title has
    after its cell's name, its run, its points).
    """
    rows = [
        (number, printable(run.row["cell"]) + words, href(run.run.log) or "", *point)
        for number, words, run, points in curves
        for point in thinned(points, POINTS)
    ]
    return DataFrame(rows, columns=[by, "title", "href", x, y])


def _late_times(run: Record) -> dict[int, Points]:
    """Return step times of each node, where several logged them; from the end of warm-up."""
    out = warmup_of(run)
    by_node = run.measurement.by_node.items()
    return {rank: times(run, late_intervals(steps, out)) for rank, steps in by_node}


def _sampled(quantity: _Sampled) -> Callable[[Record], dict[int, Points]]:
    """Return a reader of (seconds, value) of each node that was sampled."""
    return lambda run: {
        rank: list(points) for rank, points in getattr(run.measurement, quantity).items()
    }


def _flat(runs: Sequence[DrawnRun]) -> bool:
    """Whether all nodes were about as busy whenever they trained."""
    values = [
        value
        for run in runs
        for points in run.run.measurement.busy.values()
        for _, value in points
        if value >= BUSY_PERCENT
    ]
    cuts = quantiles(values, n=20) if len(values) > 1 else [0.0, 100.0]
    return cuts[-1] - cuts[0] <= FLAT_PERCENT


def _after_warmup(runs: Sequence[Record]) -> tuple[float, float] | None:
    """Frame the steps after warm-up, from the fastest to the slowest, not slower first ones."""
    late = (late_intervals(run.measurement.intervals, warmup_of(run)) for run in runs)
    after = [ms for run, steps in zip(runs, late, strict=True) for _, ms in times(run, steps)]
    if not after:
        return None
    low, high = min(after), float(np.quantile(after, 0.99))
    room = 0.15 * (high - low) or 0.1 * high
    return low - room, high + room


def _rate(row: Row) -> float | None:
    return cast(float | None, row["figures"]["samples_per_s"] if finished(row) else None)


def throughput_bars(table: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Draw bars of samples/s, in groups where there are many; None when no row has a number.

    Lengths are in percent of the longest; `low` and `span` are of the 95 % interval, of
    which a bar without one says why in `lacks`.
    """
    bars = [
        (rate, row["figures"]["samples_per_s_ci_high"]) for row in table if (rate := _rate(row))
    ]
    if not bars:
        return None
    most = max(max(rate, high or 0.0) for rate, high in bars)
    few = len(table) <= MOST_CURVES
    alone = Group("", tuple(range(len(table))), tuple(labels(table)))
    return [
        {
            "title": group.label,
            "bars": [
                _length(table[index], name, most)
                for index, name in zip(group.members, group.names, strict=True)
            ],
        }
        for group in ([alone] if few else map(shared_in_title, groups(axes_of(table))))
    ]


def shared_in_title(group: Group) -> Group:
    """Move to a group's title what each of its members' names has: no other group is beside it."""
    split = [name.split(", ") for name in group.names]
    shared = [field for field in split[0] if all(field in parts for parts in split)]
    if len(group.names) < 2 or not shared or any(len(parts) == len(shared) for parts in split):
        return group
    names = (", ".join(field for field in parts if field not in shared) for parts in split)
    return Group(", ".join([group.label, *shared]), group.members, tuple(names))


def _length(row: Row, name: str, most: float) -> dict[str, Any]:
    rate = _rate(row)
    drawn = {"name": name, "status": row["status"], "href": href(log_of(row)), "rate": None}
    if rate is None:
        return drawn
    lacks = row["missing"].get("samples_per_s_ci_low", "")
    label, low, span = f"no interval: {lacks}", None, None
    ends = [row["figures"][f"samples_per_s_ci_{end}"] for end in ("low", "high")]
    if None not in ends:
        low, high = (end / most * 100 for end in ends)
        span = f"{max(high - low, 0):.2f}"
        label = "95 % interval {} to {}".format(*map(number_text, ends))
    comparison = row["comparison"]
    return {
        **drawn,
        "rate": number_text(rate),
        "length": f"{rate / most * 100:.2f}",
        "low": None if low is None else f"{low:.2f}",
        "span": span,
        "lacks": "" if span else lacks,
        "baseline": comparison is not None and comparison["is_baseline"],
        "title": f"{printable(row['cell'])}: {number_text(rate)} samples/s ({label})",
    }
