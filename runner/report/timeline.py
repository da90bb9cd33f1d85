"""What ran when, what waited, what failed: a lane a cell, or a node; what failures cost. Pure.

It is HTML, as the bars are: blocks in percent of the lane, so that it fits any width.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from node.printable import printable
from node.time_words import lasts
from runner.base.clock import ZONE, day, minute, second
from runner.figures.goodput import PARTS, STALL, Goodput, Mean, spent_in
from runner.figures.measured_cell import MeasuredCell
from runner.report.links import href
from runner.tables.formatting import MISSING, number_text
from runner.tables.row import Row
from runner.terms.record import NOT_ENDED, Record

MOST_LANES = 60  # of more cells a lane is a node
_NARROW = 0.4  # percent of a lane: runs as narrow, side by side and of one end, are one block
_LABEL = 1.6  # percent of a lane that a repeat's number needs
_MOST_HOSTS = 4  # named in a block's title
_APART = 9.0  # percent between two labels of the axis
_STEPS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
MOST_RUNS = 20  # of a cell whose timelines are drawn


class Axis(NamedTuple):
    """The control node's clock (epoch seconds) as percent of a lane."""

    begin: float
    end: float

    def percent(self, at: float) -> float:
        """Return where a time lies."""
        return 100 * min(max((at - self.begin) / (self.end - self.begin), 0.0), 1.0)

    def ticks(self) -> list[dict[str, str]]:
        """Return round times of the clock, with their day where it is another one."""
        length = self.end - self.begin
        step = next((step for step in _STEPS if length / step <= 7), 86400 * (length // 6e5 + 1))
        marks: list[dict[str, str]] = []
        last_day, free = "", -_APART
        earliest = math.ceil(self.begin / step) * step
        for number in range(int((self.end - earliest) // step) + 1):
            at = earliest + number * step
            percent = self.percent(at)
            if percent < free or percent > 100 - _APART / 2:
                continue
            today, label = day(at), second(at) if step < 60 else minute(at, since=at)
            label = label if today == last_day else f"{today} {label}"
            free, last_day = percent + _APART * (1 if len(label) < 9 else 2), today
            marks.append({"left": f"{percent:.2f}", "label": label})
        return marks


@dataclass(frozen=True)
class _Ran:
    """A run: when a queue got it, when it began and ended (epoch seconds), and how."""

    cell: str
    repeat: int
    attempt: int
    is_last: bool
    status: str
    queued: float
    began: float
    ended: float
    hosts: tuple[str, ...]
    href: str | None

    @property
    def times(self) -> str:
        text = f"{minute(self.began)} to {minute(self.ended, self.began)}"
        text += f" ({lasts(self.ended - self.began)})"
        waited = self.began - self.queued
        return f"{text}, queued for {lasts(waited)} before" if waited else text


def timelines(cells: Sequence[MeasuredCell]) -> list[dict[str, Any]]:
    """Draw one timeline a campaign, of those in which it is known when runs began."""
    campaigns: dict[str, list[MeasuredCell]] = {}
    for cell in cells:
        campaigns.setdefault(cell.record.campaign, []).append(cell)
    drawn = [_timeline(rows) for rows in campaigns.values()]
    timelines_drawn = [timeline for timeline in drawn if timeline]
    names = [printable(name) for name, timeline in zip(campaigns, drawn, strict=True) if timeline]
    return [
        {**timeline, "title": name if len(campaigns) > 1 else ""}
        for name, timeline in zip(names, timelines_drawn, strict=True)
    ]


def _timeline(rows: Sequence[MeasuredCell]) -> dict[str, Any] | None:
    runs = [run for index, row in enumerate(rows) for run in _runs(row, str(index))]
    if not runs:
        return None
    by_cell = len(rows) <= MOST_LANES
    lanes: dict[str, list[_Ran]] = {}
    for run in sorted(runs, key=lambda run: run.queued):
        for lane in [run.cell] if by_cell else run.hosts:
            lanes.setdefault(lane, []).append(run)
    begin = min(run.queued for run in runs)
    axis = Axis(begin, max(begin + 1, *(run.ended for run in runs)))
    visible_lanes = list(lanes.items())[:MOST_LANES]
    waits = sum(row.status in NOT_ENDED for row in rows)
    return {
        "by_cell": by_cell,
        "lanes": [
            {
                "name": printable(rows[int(name)].record.cell if by_cell else name),
                "blocks": list(_blocks(of_lane, axis, by_cell)),
                "waits": [
                    _extent(axis, run.queued, run.began)
                    for run in of_lane
                    if run.began > run.queued
                ],
            }
            for name, of_lane in visible_lanes
        ],
        "ticks": axis.ticks(),
        "statuses": list(dict.fromkeys(run.status for run in runs)),
        "queued": any(run.began > run.queued for run in runs),
        "repeats": by_cell and any(run.repeat > 1 for run in runs),
        "again": sum(not run.is_last for run in runs),
        "left_out": len(lanes) - len(visible_lanes),
        "zone": ZONE,
        "waiting": waits,
    }


def _runs(row: MeasuredCell, cell: str) -> Iterable[_Ran]:
    for record in row.records:
        for attempt in record.tried:
            if attempt.began is not None:
                yield _ran(cell, record, attempt, attempt.hosts, None)
        if record.began is not None:
            yield _ran(cell, record, record, record.hosts, href(record.log))


def _ran(cell: str, record: Record, run: Any, hosts: tuple[str, ...], link: str | None) -> _Ran:
    """Say when a run was queued, began and ended; one that never began only waited."""
    began, queued_s = float(run.began), run.queued_s or 0.0
    never = not run.wall_s
    queued = began if never else began - queued_s
    began = began + queued_s if never else began
    return _Ran(
        cell=cell,
        repeat=record.repeat,
        attempt=run.attempt,
        is_last=run is record,
        status=run.status,
        queued=queued,
        began=began,
        ended=began + run.wall_s,
        hosts=hosts,
        href=link,
    )


def _extent(axis: Axis, begin: float, end: float) -> dict[str, str]:
    start, right = axis.percent(begin), axis.percent(end)
    return {"left": f"{start:.2f}", "width": f"{right - start:.2f}"}


def _blocks(runs: Sequence[_Ran], axis: Axis, by_cell: bool) -> Iterable[dict[str, Any]]:
    """Yield the blocks of a lane; runs too narrow to distinguish share one block."""
    groups: list[list[_Ran]] = []
    for run in runs:
        previous = groups[-1][-1] if groups else None
        width = axis.percent(run.ended) - axis.percent(run.began)
        if (
            previous is not None
            and width < _NARROW
            and previous.status == run.status
            and axis.percent(run.ended) - axis.percent(groups[-1][0].began) < 2 * _NARROW
        ):
            groups[-1].append(run)
        else:
            groups.append([run])
    for group in groups:
        earliest, previous = group[0], group[-1]
        extent = _extent(axis, earliest.began, max(run.ended for run in group))
        single = len(group) == 1
        yield {
            **extent,
            "status": earliest.status,
            "last": any(run.is_last for run in group),
            "label": str(earliest.repeat)
            if single and by_cell and float(extent["width"]) > _LABEL
            else "",
            "href": earliest.href if single else None,
            "title": _title(earliest, by_cell)
            if single
            else f"{len(group)} runs, {earliest.status}: {minute(earliest.began)} to"
            f" {minute(previous.ended, earliest.began)}",
        }


def _title(run: _Ran, by_cell: bool) -> str:
    again = f", attempt {run.attempt}" if run.attempt > 1 or not run.is_last else ""
    hosts = ", ".join(run.hosts[:_MOST_HOSTS]) + (" ..." if len(run.hosts) > _MOST_HOSTS else "")
    on = f", on {printable(hosts)}" if hosts and by_cell else ""
    return f"repeat {run.repeat}{again}: {run.status}, {run.times}{on}"


def failures(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> dict[str, Any] | None:
    """Return the section's data; None where no cell has checkpoints, faults or recovery."""
    rows = [(cell, cell.goodput) for cell in cells if cell.goodput is not None]
    if not rows:
        return None
    return {
        "parts": PARTS,
        "bars": [_bar(row, goodput) for row, goodput in rows],
        "lines": [line for row, _ in rows for line in _timelines(row)],
        "saves": [_saves(row, goodput) for row, goodput in rows if goodput.costs[STALL]],
        "resumed": [
            {"cell": printable(row["cell"]), **row["resumed"]} for row in table if row["resumed"]
        ],
    }


def _bar(cell: MeasuredCell, goodput: Goodput) -> dict[str, Any]:
    return {
        "cell": printable(cell.record.cell),
        "percent": number_text(goodput.percent, 1),
        "total": lasts(goodput.total_s),
        "blocks": _parts(goodput.parts.items()),
    }


def _parts(spent: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    """Lay (part, seconds) one behind the other; parts that follow themselves are one block."""
    runs = [
        (part, sum(seconds for _, seconds in group))
        for part, group in groupby(spent, key=lambda item: item[0])
    ]
    total_s, at, blocks = sum(seconds for _, seconds in runs), 0.0, []
    for part, seconds in runs:
        if seconds > 0:
            share = 100 * seconds / total_s
            blocks.append(
                {
                    "part": part,
                    "left": round(100 * at / total_s, 3),
                    "width": round(share, 3),
                    "title": f"{PARTS[part]}: {seconds:.2f} s ({share:.1f} %)",
                }
            )
        at += seconds
    return blocks


def _timelines(cell: MeasuredCell) -> Iterator[dict[str, Any]]:
    """Draw the runs of a cell that had more than one attempt or session."""
    stories = [(run.repeat, run.story) for run in cell.records if run.story]
    for repeat, story in [item for item in stories if len(item[1].sessions) > 1][:MOST_RUNS]:
        spent, begun = spent_in(story), story.attempts[0].began
        total_s = sum(item.seconds for item in spent)
        yield {
            "cell": printable(cell.record.cell),
            "repeat": repeat,
            "blocks": _parts(spent),
            "faults": [
                {
                    "left": round(min(100.0, max(0.0, 100 * (fault.at - begun) / total_s)), 3),
                    "title": f"{fault.kind} on node {fault.node}, {fault.at - begun:.1f} s",
                }
                for fault in story.faults
            ],
        }


def _saves(cell: MeasuredCell, goodput: Goodput) -> dict[str, Any]:
    rate, stall = goodput.bytes_per_s, goodput.costs[STALL]
    return {
        "cell": printable(cell.record.cell),
        "count": stall.count if stall else 0,
        "stall": _mean_text(stall),
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
