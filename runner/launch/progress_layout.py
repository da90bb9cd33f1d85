"""How far a campaign is, drawn for a terminal of any size from 40 columns on. Pure.

Every line is narrower than the terminal, so that none wraps and a line is a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from runner.base.console import one_line
from runner.launch.campaign_status import Running, Status, Waiting, lasting
from runner.terms.record import WELL

BAR = 40  # letters of the widest
_LEAST = 8  # of the narrowest; where there is less room, what stands before it is cut
_FEWEST = 58  # columns of a terminal in which a campaign has a bar, too
_INDENT = "  "


@dataclass(frozen=True)
class Picture:
    """A campaign's status, for a terminal and as a line."""

    status: Status

    @property
    def words(self) -> str:
        """Say the run that goes on, or how many do, in a line."""
        now = self.status
        remaining = f", campaign {lasting(now.left_s)}" if now.left_s else ""
        going = len(now.runs_now) + now.others
        if going + len(now.queued) == 1:
            lines = [_first(now.queued)] if now.queued else []
            lines += [f"{run.title}{run.on}: {run.words}" for run in now.runs_now]
            return "".join(lines) + remaining
        summary = [f"{going} running"] if going else []
        if now.queued:
            summary.append(f"{len(now.queued)} waiting, first {_first(now.queued)}")
        return "; ".join([*summary, f"{now.over} of {now.runs} ended{remaining}"])

    def rows(self, width: int, height: int) -> list[Text]:
        """Draw it in fewer rows than `height`, each narrower than `width`."""
        width, room = max(width - 1, 20), max(height - 2, 3)
        now = self.status
        not_ok = now.over - sum(now.ended.get(status, 0) for status in WELL)
        bad = f", {not_ok} not ok" if not_ok else ""
        remaining = f", {lasting(now.left_s)}" if now.left_s is not None else ""
        end = f"{now.over} of {now.runs} ended{bad}{remaining}"
        share = now.over / now.runs if now.runs else 0.0
        rows = [_row(f"campaign {now.campaign}", end, width, share)]
        below = []
        if now.queued:
            waiting = f"{len(now.queued)} waiting, first {_first(now.queued)}"
            below.append(_cut(one_line(waiting), width))
        if now.next:
            below.append(_cut(one_line(_listed(now.next, width)), width))
        most = max((room - len(rows) - len(below)) // 2, 1)
        if more := max(len(now.runs_now) - most, 0) + now.others:
            below.insert(0, _cut(one_line(f"and {more} more running"), width))
        for run in now.runs_now[:most]:
            rows += _run(run, width)
        return [*rows, *below][: max(height - 1, 1)]


def _first(queued: Sequence[Waiting]) -> str:
    return f"{queued[0].title}: {queued[0].words}"


def _run(run: Running, width: int) -> list[Text]:
    head = _row(run.title + run.on, run.time, width)
    if run.iteration is None:
        return [head, one_line(f"{_INDENT}{run.step}")]
    figures = "  ".join((run.step, *run.figures))
    line = Text(_INDENT)
    if run.train_iters:
        room = width - len(_INDENT) - len(figures) - 1
        if (bar := _bar(run.iteration / run.train_iters, min(BAR, room))).plain:
            line.append(bar).append(" ")
    return [head, _cut(line.append(one_line(figures)), width)]


def _row(before: str, after: str, width: int, part: float | None = None) -> Text:
    """Set one text left and one right, with a bar between them where there is a `part` of one."""
    part = part if width >= _FEWEST else None
    least = 0 if part is None else _LEAST + 1
    line = _cut(one_line(before), max(width - len(after) - 1 - least, _LEAST))
    if part is not None:
        line.append(" ").append(_bar(part, min(BAR, width - line.cell_len - len(after) - 2)))
    line.append(" " * max(width - line.cell_len - len(after), 1))
    return _cut(line.append(one_line(after)), width)


def _bar(part: float, width: int) -> Text:
    """Draw `[####----]`; in letters, for a terminal may know no others."""
    if width < _LEAST:
        return Text("")
    full = round(min(max(part, 0.0), 1.0) * (width - 2))
    bar = Text("[").append("#" * full, "green")
    return bar.append("-" * (width - 2 - full), "dim").append("]")


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line


def _listed(titles: Sequence[str], width: int) -> str:
    """List as many as have room whole, at least one, and how many more there are."""
    next_line = more = ""
    for count in range(min(len(titles), 5), 0, -1):
        more = f"; {len(titles) - count} more" if len(titles) > count else ""
        next_line = f"next: {'; '.join(titles[:count])}{more}"
        if len(next_line) <= width:
            break
    else:
        cut = Text(titles[0])
        cut.truncate(width - len("next: ") - len(more), overflow="ellipsis")
        next_line = f"next: {cut.plain}{more}"
    return next_line
