"""Time on a line: the control node's clock as percent of a width, long idle times cut short. Pure.

A campaign that was taken up again days later would else be two specks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from node.time_words import lasts
from runner.base.clock import day, minute, second

_LONG = 0.25  # of all time in which something ran: an idle time beyond is cut
_CUT = 4.0  # percent that a cut one has
_APART = 9.0  # percent between two labels
_STEPS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)


class _Piece(NamedTuple):
    """A stretch of time (epoch seconds) and where it lies, in percent."""

    begin: float
    end: float
    offset: float
    right: float
    cut: bool


@dataclass(frozen=True)
class Axis:
    """Time in pieces, each to scale or cut short; `idle` seconds of it nothing ran."""

    pieces: tuple[_Piece, ...]
    idle: float

    def percent(self, at: float) -> float:
        """Return where a time lies."""
        for piece in self.pieces:
            if at <= piece.end:
                break
        share = (at - piece.begin) / (piece.end - piece.begin) if piece.end > piece.begin else 0.0
        return piece.offset + min(max(share, 0.0), 1.0) * (piece.right - piece.offset)

    def cuts(self) -> list[dict[str, str]]:
        """Return the idle times that were cut, and how long they were."""
        return [
            {
                "left": f"{piece.offset:.2f}",
                "width": f"{piece.right - piece.offset:.2f}",
                "words": f"nothing ran for {lasts(piece.end - piece.begin)}",
            }
            for piece in self.pieces
            if piece.cut
        ]

    def ticks(self) -> list[dict[str, str]]:
        """Return round times of the clock, with their day where it is another one."""
        scaled = [piece for piece in self.pieces if not piece.cut]
        running = sum(piece.end - piece.begin for piece in scaled)
        step = next((step for step in _STEPS if running / step <= 7), 86400 * (running // 6e5 + 1))
        marks: list[dict[str, str]] = []
        last_day, free = "", -_APART
        for piece in scaled:
            earliest = math.ceil(piece.begin / step) * step
            for number in range(int((piece.end - earliest) // step) + 1):
                at = earliest + number * step
                percent = self.percent(at)
                if percent < free or percent > piece.right - _APART / 2:
                    continue
                today, label = day(at), second(at) if step < 60 else minute(at, since=at)
                label = label if today == last_day else f"{today} {label}"
                free, last_day = percent + _APART * (1 if len(label) < 9 else 2), today
                marks.append({"left": f"{percent:.2f}", "label": label})
        return marks


def axis_of(spans: Sequence[tuple[float, float]]) -> Axis:
    """Lay out the time that the spans (epoch seconds) cover; there is one at least."""
    busy: list[list[float]] = []
    for begin, end in sorted(spans):
        if busy and begin <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([begin, end])
    running = sum(end - begin for begin, end in busy)
    gaps = [(earlier[1], later[0]) for earlier, later in pairwise(busy)]
    cut = [gap for gap in gaps if gap[1] - gap[0] > max(_LONG * running, 60.0)]
    edges = [busy[0][0], *(at for gap in cut for at in gap), max(busy[-1][1], busy[0][0] + 1)]
    scaled = sum(end - begin for begin, end in pairwise(edges)) - sum(e - b for b, e in cut)
    share = min(_CUT, 40.0 / len(cut)) if cut else 0.0
    pieces, offset = [], 0.0
    for number, (begin, end) in enumerate(pairwise(edges)):
        is_cut = number % 2 == 1
        width = share if is_cut else (100 - share * len(cut)) * (end - begin) / (scaled or 1.0)
        pieces.append(_Piece(begin, end, offset, offset + width, is_cut))
        offset += width
    return Axis(tuple(pieces), sum(end - begin for begin, end in gaps))
