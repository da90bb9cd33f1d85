"""The roofline: TFLOP/s of a device over FLOPs a byte, under what the device can do. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from node.printable import printable
from runner.figures.devices import memory_rate
from runner.figures.intensity import flop_per_byte
from runner.report.links import href
from runner.report.points import telling_axis
from runner.report.svg import FAINT, SERIES, TEXT, draw, mark
from runner.tables.catalogue.every_column import missing
from runner.tables.formatting import number_text
from runner.tables.row import Row

_ALIKE = 1.1  # a product beyond another, as a factor, that has a line of its own
_ROOM = 1.6  # of a logarithmic axis beyond what is drawn, as a factor


@dataclass(frozen=True)
class _Point:
    """A cell: FLOPs a byte, and TFLOP/s of a device, of which a data sheet and doctor say most."""

    row: Row
    intensity: float
    rate: float
    peak: float
    memory: float  # GB/s

    @property
    def ridge(self) -> float:
        """The FLOPs a byte from which on the products, not the memory, are what limits."""
        return self.peak * 1e3 / self.memory


def roofline(table: Sequence[Row]) -> dict[str, Any] | None:
    """Draw the cells with an MFU; those whose intensity is not known as bars against the peak.

    None where no cell has an MFU: a cell without a peak is not drawn, and `reasons` says why.
    """
    points: list[_Point] = []
    bars: list[dict[str, Any]] = []
    reasons: dict[str, int] = {}
    for row in table:
        rate, peak = row.model_tflop_per_s_per_device, row.peak_tflop_per_s
        if not row.finished:
            continue
        if rate is None or not peak:
            why = missing(row).get("mfu_percent") or "no MFU is known"
            reasons[why] = reasons.get(why, 0) + 1
            continue
        intensity, why = flop_per_byte(row.record, row.vocabulary[0] if row.vocabulary else 0)
        memory = memory_rate(row.device)
        why = why or ("" if memory else "the rate of its memory is not known")
        if intensity is None or memory is None:
            bars.append(_bar(row, rate, peak, why))
        else:
            points.append(_Point(row, intensity, rate, peak, memory))
    if not points and not bars:
        return None
    plot = _plot(points) if points else {"svg": "", "legend": [], "dashed": False}
    notes = [f"{printable(why)} ({count})" for why, count in reasons.items()]
    return {**plot, "bars": bars, "reasons": notes}


def _bar(row: Row, rate: float, peak: float, why: str) -> dict[str, Any]:
    product = row.matmul_tflop_per_s
    name = printable(row.cell)
    return {
        "name": name,
        "length": f"{min(rate / peak, 1) * 100:.2f}",
        "product": f"{min(product / peak, 1) * 100:.2f}" if product else None,
        "words": f"{number_text(rate)} of {number_text(peak)}",
        "percent": f"{rate / peak * 100:.1f}%",
        "href": href(row.record.log),
        "title": f"{name}: {why}",
    }


def _plot(points: Sequence[_Point]) -> dict[str, Any]:
    rows = [point.row for point in points]
    axis, values = telling_axis(rows)
    kinds = list(dict.fromkeys(values))
    legend = [{"label": f"{axis} {kind}", "mark": mark(place)} for place, kind in enumerate(kinds)]
    return {
        "svg": _svg(points, [kinds.index(value) for value in values]),
        "legend": legend if axis else [],
        "dashed": bool(_products(points)),
    }


def _svg(points: Sequence[_Point], colours: Sequence[int]) -> Markup:
    def paint(axes: Axes) -> dict[str, str]:
        titles = {}
        roofs = list(dict.fromkeys((point.peak, point.memory) for point in points))
        left = min(min(p.intensity for p in points), min(p.ridge for p in points)) / _ROOM
        right = max(max(p.intensity for p in points), max(p.ridge for p in points)) * _ROOM * 2
        low = min(p.rate for p in points)
        for peak, memory in roofs:
            ridge = peak * 1e3 / memory
            axes.plot(
                [left, ridge, right], [left * memory / 1e3, peak, peak], color=TEXT, linewidth=1.2
            )
            _say(axes, right, peak, f"data sheet {number_text(peak)}")
        for least, most in _products(points):
            axes.axhspan(least, most, facecolor=FAINT, alpha=0.3, linewidth=0)
            axes.axhline(most, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
            ends = " to ".join(dict.fromkeys(map(number_text, (least, most))))
            _say(axes, right, most, f"doctor's product {ends}")
        for index, (point, place) in enumerate(zip(points, colours, strict=True)):
            (drawn,) = axes.plot(
                [point.intensity],
                [point.rate],
                "o",
                markersize=5,
                color=SERIES[place % len(SERIES)],
                alpha=0.85,
            )
            drawn.set_gid(f"point{index}")
            titles[f"point{index}"] = (
                f"{printable(point.row.cell)}: {number_text(point.rate)} TFLOP/s,"
                f" {number_text(point.rate / point.peak * 100)} % of the data sheet's,"
                f" {number_text(point.intensity)} FLOP a byte"
            )
            if link := href(point.row.record.log):
                drawn.set_url(link)
        axes.set_xscale("log")
        axes.set_yscale("log")
        most = max(max(p.peak for p in points), max(p.rate for p in points))
        axes.set(xlim=(left, right), ylim=(low / _ROOM, most * _ROOM))
        for ticked in (axes.xaxis, axes.yaxis):
            ticked.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ticked.set_major_formatter("{x:g}")
            ticked.set_minor_locator(NullLocator())
        axes.set(xlabel="FLOP a byte of memory", ylabel="TFLOP/s a device")
        return titles

    return draw("roofline", "Model TFLOP/s of a device over FLOPs a byte", 260, paint)


def _products(points: Sequence[_Point]) -> list[tuple[float, float]]:
    """Return what doctor's products reached, from least to most; those much alike as one."""
    found: list[tuple[float, float]] = []
    for product in sorted({p.row.matmul_tflop_per_s or 0.0 for p in points} - {0.0}):
        if found and product < found[-1][0] * _ALIKE:
            found[-1] = (found[-1][0], product)
        else:
            found.append((product, product))
    return found


def _say(axes: Axes, right: float, height: float, words: str) -> None:
    axes.annotate(
        words, (right, height), (-2, 4), textcoords="offset points", ha="right", color=FAINT, size=9
    )
