"""A run's loss and step time as small SVGs: lines alone, some hundred bytes each. Pure."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from node.printable import printable
from runner.figures.counted_steps import late_intervals, warmup_of
from runner.figures.run_curves import Points, loss_curve, thinned, times, validation_curve
from runner.tables.formatting import number_text
from runner.terms.record import Record

WIDTH, HEIGHT = 260, 72  # SVG units, which are px of a page
POINTS = 80
_EDGE = 3  # units that a line keeps from the frame


def _late_times(run: Record) -> Points:
    """Return (iteration, ms) after warm-up: a slow first step would flatten all others."""
    return times(run, late_intervals(run.measurement.intervals, warmup_of(run)))


_CURVES: Sequence[tuple[str, Callable[[Record], Points]]] = (
    ("loss", loss_curve),
    ("validation loss", validation_curve),
    ("step time after warm-up, ms", _late_times),
)


def small_curves(run: Record) -> list[dict[str, Any]]:
    """Return the curves of which the run has two points or more, each with what it spans."""
    drawn = []
    for title, of in _CURVES:
        points = of(run)
        if len(points) < 2:
            continue
        low, high = min(y for _, y in points), max(y for _, y in points)
        caption = (
            f"{number_text(low)} to {number_text(high)}, iterations {points[0][0]:.0f} to"
            f" {points[-1][0]:.0f}; last {number_text(points[-1][1])}"
        )
        svg = _svg(thinned(points, POINTS), (low, high), f"{title}: {caption}")
        drawn.append({"title": title, "words": caption, "svg": svg})
    return drawn


def _svg(points: Points, span: tuple[float, float], label: str) -> Markup:
    """Draw one line within a span of values; `label` is what it says to who cannot see it."""
    start, right = points[0][0], points[-1][0]
    low, high = span
    places = [
        (round(_scaled(x, start, right, WIDTH)), round(HEIGHT - _scaled(y, low, high, HEIGHT), 1))
        for x, y in points
    ]
    steps = [
        f"{to[0] - at[0]:g},{to[1] - at[1]:.3g}" for at, to in pairwise(places)
    ]  # from one point to the next: shorter than where it is
    return Markup(
        '<svg class="small" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<path d="m{},{} {}"/></svg>'
    ).format(WIDTH, HEIGHT, printable(label), *places[0], " ".join(steps))


def _scaled(value: float, low: float, high: float, size: int) -> float:
    """Return where a value lies, in units from the edge; in the middle where all are alike."""
    half = high / 2 - low / 2  # a difference may be more than a float holds
    share = (value / 2 - low / 2) / half if half > 0 else 0.5
    return _EDGE + share * (size - 2 * _EDGE)
