"""How far a campaign is, drawn for a terminal of any size from 40 columns on. Pure.

Every line is narrower than the terminal, so that none wraps and a line is a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from runner.base.console import one_line
from runner.base.text import some

BAR = 40  # letters of the widest
_LEAST = 8  # of the narrowest; where there is less room, what stands before it is cut
_FEWEST = 58  # columns of a terminal in which a campaign has a bar, too
_INDENT = "  "


@dataclass(frozen=True)
class Going:
    """A run that goes on: its title, and what is known of it. None is not known."""

    title: str
    elapsed_s: float
    hosts: tuple[str, ...] = ()
    iteration: int | None = None
    train_iters: int | None = None
    samples_per_s: float | None = None
    loss: float | None = None
    memory_used_mib: float | None = None
    left_s: float | None = None
    memory_rss_mib: float | None = None

    @property
    def on(self) -> str:
        """Write ` on a1, a2`."""
        return f" on {some(self.hosts)}" if self.hosts else ""

    @property
    def time(self) -> str:
        """Write `14 s, about 20 s left`."""
        left = "" if self.left_s is None else f", {lasting(self.left_s)}"
        return f"{self.elapsed_s:.0f} s{left}"

    @property
    def figures(self) -> list[str]:
        """Write `98.1 samples/s`, `loss 5.321` and `1024 MiB`, as far as they are known."""
        each = (
            (self.samples_per_s, "{:.1f} samples/s"),
            (self.loss, "loss {:.3f}"),
            (self.memory_used_mib, "{:.0f} MiB"),
            (self.memory_rss_mib, "RSS {:.0f} MiB"),
        )
        return [words.format(value) for value, words in each if value is not None]

    @property
    def words(self) -> str:
        """Write `iteration 12/50, 98.1 samples/s, loss 5.321, 1024 MiB, 14 s, about 20 s left`."""
        if self.iteration is None:
            return f"starting, {self.elapsed_s:.0f} s"
        of = f"/{self.train_iters}" if self.train_iters else ""
        return ", ".join([f"iteration {self.iteration}{of}", *self.figures, self.time])


@dataclass(frozen=True)
class Picture:
    """A campaign that goes on: how many of its runs ended, what goes on, waits and comes next."""

    campaign: str
    runs: int
    ended: int
    not_ok: int = 0
    left_s: float | None = None
    going: tuple[Going, ...] = ()
    others: int = 0  # that go on, and were not looked at
    queued: int = 0
    first_queued: str = ""  # title and what it waits for
    next: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Say the run that goes on, or how many do, in a line."""
        left = f", campaign {lasting(self.left_s)}" if self.left_s else ""
        going = len(self.going) + self.others
        if going + self.queued == 1:
            line = self.first_queued
            for run in self.going:
                line = f"{run.title}{run.on}: {run.words}"
            return line + left
        summary = [f"{going} running"] if going else []
        if self.queued:
            summary.append(f"{self.queued} waiting, first {self.first_queued}")
        return "; ".join([*summary, f"{self.ended} of {self.runs} ended{left}"])

    def rows(self, width: int, height: int) -> list[Text]:
        """Draw it in fewer rows than `height`, each narrower than `width`."""
        width, room = max(width - 1, 20), max(height - 2, 3)
        bad = f", {self.not_ok} not ok" if self.not_ok else ""
        left = f", {lasting(self.left_s)}" if self.left_s is not None else ""
        end = f"{self.ended} of {self.runs} ended{bad}{left}"
        part = self.ended / self.runs if self.runs else 0.0
        rows = [_row(f"campaign {self.campaign}", end, width, part)]
        below = []
        if self.queued:
            words = f"{self.queued} waiting, first {self.first_queued}"
            below.append(_cut(one_line(words), width))
        if self.next:
            below.append(_cut(one_line(_listed(self.next, width)), width))
        most = max((room - len(rows) - len(below)) // 2, 1)
        if more := max(len(self.going) - most, 0) + self.others:
            below.insert(0, _cut(one_line(f"and {more} more running"), width))
        for run in self.going[:most]:
            rows += _run(run, width)
        return [*rows, *below][: max(height - 1, 1)]


def _run(run: Going, width: int) -> list[Text]:
    head = _row(run.title + run.on, run.time, width)
    if run.iteration is None:
        return [head, one_line(f"{_INDENT}starting")]
    of = f"/{run.train_iters}" if run.train_iters else ""
    figures = "  ".join((f"{run.iteration}{of}", *run.figures))
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
    words = more = ""
    for count in range(min(len(titles), 5), 0, -1):
        more = f"; {len(titles) - count} more" if len(titles) > count else ""
        words = f"next: {'; '.join(titles[:count])}{more}"
        if len(words) <= width:
            break
    else:
        cut = Text(titles[0])
        cut.truncate(width - len("next: ") - len(more), overflow="ellipsis")
        words = f"next: {cut.plain}{more}"
    return words


def lasting(left: float) -> str:
    """Write `about 20 s left`, in minutes from two on."""
    return f"about {left:.0f} s left" if left < 120 else f"about {left / 60:.0f} min left"
