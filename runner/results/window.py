"""When the counted steps ran, by their node's clock, and how well that is known. Pure.

A poll of the log (timeline.jsonl: node time, bytes of the log by then) says that a line was written
after the poll before it, and by its own time. That alone is as coarse as the polls: 1 s, and up to
8 s on large clusters. What the log itself says of its steps' times ties its lines together, so that
all polls about the window speak of one unknown, the time of its first line; usually they leave it
a small part of a step. Where the log's clock stood still now and then (it reported, saved,
evaluated), each edge is found by the lines close to it; without any times by its own polls.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from runner.terms.record import Place

ASKING_S = 0.02  # between a poll's look at the log and the time that it says
# Of its steps' time, a trainer's clock may leave out so much between two lines that are so close.
STANDS_STILL, CLOSE_S = 0.05, 10.0
Span = tuple[float, float]


class Seen(NamedTuple):
    """A logged step, and between which node times its line was written, in s."""

    iteration: int
    after: float
    by: float


class Window(NamedTuple):
    """When steps ran, by their node's clock in s: from the line before them to their last one.

    Each edge is known to ± so much; `tied`: how long it took is known, and both err alike.
    """

    begin: float
    end: float
    iterations: int
    begin_within: float = 0.0
    end_within: float = 0.0
    tied: bool = False

    def possible(self, times: Iterable[float]) -> list[tuple[float, float]]:
        """Return (begin, end) of the windows between which it lies; of one that is tied also those
        with an edge at one of `times`.
        """
        least, most = -self.begin_within, self.begin_within
        if not self.tied:
            early, late = self.begin - most, self.end + self.end_within
            return [(early, late), (self.begin + most, self.end - self.end_within)]
        moved = {at - edge for at in times for edge in (self.begin, self.end)}
        shifts = (least, *(shift for shift in moved if least < shift < most), most)
        return [(self.begin + shift, self.end + shift) for shift in shifts]

    @property
    def sure(self) -> Span:
        """Return from when to when the steps ran, wherever the edges lie; of a window that is known
        too coarsely to say so from when to when they may have.
        """
        early, late = self.begin + self.begin_within, self.end - self.end_within
        wide = late - early < (self.end - self.begin) / 2
        return (self.begin, self.end) if wide else (early, late)

    def moved(self, seconds: float) -> "Window":
        """Return the window by another clock."""
        return self._replace(begin=self.begin + seconds, end=self.end + seconds)


def times_of_steps(places: Sequence[Place], polls: Iterable[tuple[float, int]]) -> list[Seen]:
    """Return when each logged step's whole line was written, by polls in order: (node time, bytes
    of log).

    Of lines that came together the first may have waited for the last in the trainer's buffer,
    since the lines before them came.
    """
    ends, steps = [place.end for place in places], list[Seen]()
    last_poll = last_growth = -math.inf
    for time, size in polls:
        new = places[len(steps) : bisect_right(ends, size, len(steps))]
        after = (last_poll if len(new) == 1 else last_growth) - ASKING_S
        steps += [Seen(place.iteration, after, time) for place in new]
        if last_growth == -math.inf or new:
            last_growth = time
        last_poll = time
    return steps


def steady_window(
    steps: Sequence[Seen], counted: tuple[int, int], took: Mapping[int, tuple[int, float | None]]
) -> Window | None:
    """Return when the counted iterations (first, last) ran; None where that was not logged.

    `took` has, by a line's iteration, how many it covers and the seconds of all by the log.
    Without a line before them the window begins with their first line, whose own iterations are
    then left out.
    """
    first_iteration, last_iteration = counted
    before = [at for at, step in enumerate(steps) if step.iteration < first_iteration]
    within = [
        at for at, step in enumerate(steps) if first_iteration <= step.iteration <= last_iteration
    ]
    if not within:
        return None
    ends = max(within)
    begins = max((at for at in before if at < ends), default=min(within))
    lines = steps[begins : ends + 1]
    gaps = _logged_gaps(lines, took)
    tied = None if None in gaps else _edges(lines, gaps, 0.0)
    early, late = tied or _edges(lines, gaps, STANDS_STILL) or (lines[0][1:], lines[-1][1:])
    begin, end = sum(early) / 2, sum(late) / 2
    if begin == -math.inf or end <= begin:
        return None
    halves = (early[1] - early[0]) / 2, (late[1] - late[0]) / 2
    covered = lines[-1].iteration - lines[0].iteration
    return Window(begin, end, covered, *halves, tied=bool(tied))


def _logged_gaps(
    lines: Sequence[Seen], took: Mapping[int, tuple[int, float | None]]
) -> list[float | None]:
    """Return the seconds from each line to the next by the log's own step times; None where it does
    not say them.
    """
    gaps = []
    for before, line in pairwise(lines):
        covers, seconds = took.get(line.iteration, (0, None))
        covers_gap = covers == line.iteration - before.iteration
        gaps.append(seconds if covers_gap else None)
    return gaps


def _edges(
    lines: Sequence[Seen], gaps: Sequence[float | None], still: float
) -> tuple[Span, Span] | None:
    """Return between which times the first and the last line were written; None where the polls
    contradict what the log said of the time between lines.

    `still`: up to this share of their time the log's clock may have stood still between two lines.
    Then only the lines close to an edge speak of it.
    """
    close = CLOSE_S if still else math.inf
    head = list(zip(lines, _sums(gaps, close), strict=False))
    tail = list(zip(reversed(lines), _sums(gaps[::-1], close), strict=False))
    begin = (
        max(line.after - since * (1 + still) for line, since in head),
        min(line.by - since for line, since in head),
    )
    end = (
        max(line.after + until for line, until in tail),
        min(line.by + until * (1 + still) for line, until in tail),
    )
    return (begin, end) if begin[0] <= begin[1] and end[0] <= end[1] else None


def _sums(spans: Iterable[float | None], most: float) -> Iterator[float]:
    """Yield running sums of spans, from 0, up to the first that is not known, or to `most`."""
    total = 0.0
    yield total
    for span in spans:
        if span is None or total + span > most:
            return
        total += span
        yield total
