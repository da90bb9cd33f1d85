"""A quantity over campaigns as a small SVG of our own: a thousand are drawn in a second.

Points are at equal distances, in the order of the campaigns, for nights without a run are not
news; their 95 % intervals are lines, levels between changes lines behind them, changes dashed.
What is not looked at for changes is hollow; what has no figure is a cross at the bottom.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from node.printable import printable

WIDTH, HEIGHT = 960, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 12, 34
_TICKS = 4
_MOST_DATES = 9


@dataclass(frozen=True)
class Mark:
    """One point: its place among the campaigns, what it is, where it leads, and its words.

    `value` is None of what has no figure.
    """

    at: int
    value: float | None
    low: float | None
    high: float | None
    counted: bool
    words: str
    href: str
    date: str


@dataclass(frozen=True)
class Level:
    """The level of the points from `begin` up to `end`, with them."""

    begin: int
    end: int
    value: float


def plot(
    label: str, marks: Sequence[Mark], levels: Sequence[Level], changes: Sequence[int]
) -> Markup:
    """Draw the quantity; a sentence where no point has it."""
    values = [v for m in marks for v in (m.value, m.low, m.high) if v is not None]
    if not values:
        return Markup('<p class="nothing">No campaign has this figure.</p>')
    scale = _Scale(values, len(marks))
    parts = [*_grid(scale), *_dates(scale, marks)]
    for at in changes:
        x = scale.x(at - 0.5)
        parts.append(
            Markup('<line class="change" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                x, _TOP, HEIGHT - _BOTTOM
            )
        )
    for level in levels:
        ends, y = (scale.x(level.begin), scale.x(level.end)), scale.y(level.value)
        line = Markup('<line class="level" x1="{}" x2="{}" y1="{}" y2="{}"/>')
        parts.append(line.format(*ends, y, y))
    parts += [_mark(scale, mark) for mark in marks]
    return Markup(
        '<svg class="series" viewBox="0 0 {} {}" role="group" aria-label="{}">{}</svg>'
    ).format(WIDTH, HEIGHT, printable(label), Markup("").join(parts))


class _Scale:
    """Places of values, with round ticks."""

    def __init__(self, values: Sequence[float], count: int) -> None:
        low, high = min(values), max(values)
        room = max(high - low, abs(high) * 0.02, 1e-9)
        self.step = _round_step(room * 1.16 / _TICKS)
        self.low = max(math.floor((low - room * 0.08) / self.step) * self.step, 0.0)
        self.high = math.ceil((high + room * 0.08) / self.step) * self.step
        self.count = count

    def x(self, at: float) -> float:
        """Return where a campaign stands."""
        room = WIDTH - _LEFT - _RIGHT
        return round(_LEFT + room * (at + 0.5) / self.count, 1)

    def y(self, value: float) -> float:
        """Return where a value stands."""
        room = HEIGHT - _TOP - _BOTTOM
        return round(_TOP + room * (self.high - value) / (self.high - self.low), 1)

    def ticks(self) -> list[float]:
        """Return the values that are named."""
        count = round((self.high - self.low) / self.step)
        return [self.low + self.step * at for at in range(count + 1)]


def _round_step(room: float) -> float:
    power = 10.0 ** math.floor(math.log10(room))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= room * 0.999)


def _decimals(step: float) -> int:
    """Say how many decimals tell multiples of a round step apart."""
    return next((d for d in range(9) if abs(round(step, d) - step) < step / 1000), 9)


def _grid(scale: _Scale) -> list[Markup]:
    digits = _decimals(scale.step)
    return [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
            '<text class="tick" x="{}" y="{}">{}</text>'
        ).format(
            _LEFT,
            WIDTH - _RIGHT,
            scale.y(value),
            scale.y(value),
            _LEFT - 8,
            scale.y(value) + 4,
            f"{value:,.{digits}f}",
        )
        for value in scale.ticks()
    ]


def _dates(scale: _Scale, marks: Sequence[Mark]) -> list[Markup]:
    every = -(-len(marks) // _MOST_DATES)
    return [
        Markup('<text class="date" x="{}" y="{}">{}</text>').format(
            scale.x(mark.at), HEIGHT - 10, printable(mark.date)
        )
        for mark in marks[::every]
    ]


def _mark(scale: _Scale, mark: Mark) -> Markup:
    x, title = scale.x(mark.at), Markup("<title>{}</title>").format(printable(mark.words))
    if mark.value is None:
        y = float(HEIGHT - _BOTTOM - 7)
        shape = Markup('<path class="failed" d="M{} {}l8 8m0 -8l-8 8"/>').format(x - 4, y - 4)
    else:
        y = scale.y(mark.value)
        shape = Markup('<circle class="{}" cx="{}" cy="{}" r="4"/>').format(
            "point" if mark.counted else "point hollow", x, y
        )
        if mark.low is not None and mark.high is not None:
            bar = Markup('<line class="interval" x1="{}" x2="{}" y1="{}" y2="{}"/>')
            shape = bar.format(x, x, scale.y(mark.low), scale.y(mark.high)) + shape
    hit = Markup('<circle class="hit" cx="{}" cy="{}" r="11"/>').format(x, y)
    return Markup('<a href="{}">{}{}{}</a>').format(mark.href, title, hit, shape)
