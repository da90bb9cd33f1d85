"""What a person sees while a campaign runs: live lines in a terminal, plain ones elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from runner.base.console import Screen, one_line
from runner.base.streams import Leaving
from runner.base.text import some
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.campaign import Campaign
from runner.launch.live import Now, left_s, now_of
from runner.launch.screen import showing
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import Measurement

Repeat = tuple[str, int]  # of a cell, by its id

MOST_LINES = 8  # of runs that are shown by name, and looked at
STYLES = {"ok": "green", "interrupted": "yellow"}


@dataclass(frozen=True)
class _Shown:
    """A run that goes on, or waits, as it is shown."""

    title: str
    cell: Cell
    attempt: Attempt
    waiting: Callable[[RunFolder], str]
    since: float  # of the monotonic clock


class View:
    """Progress on standard error, so that standard output stays the table's.

    Threads that have a run each call it.
    """

    def __init__(self, console: Screen | None = None) -> None:
        stream = cast("IO[str]", Leaving())
        self.console = console or Screen(file=stream, soft_wrap=True)
        self.total = 0
        self.numbers: dict[Repeat, int] = {}  # of repeats that ended before, or began: not attempts
        self.over: set[Repeat] = set()
        self.times: list[float] = []  # seconds that ended runs took
        self._shown: dict[Path, _Shown] = {}
        self._screen = ExitStack()
        self._lock = threading.RLock()

    def begin(
        self, campaign: Campaign, total: int, uses: str, kept: Mapping[Repeat, Outcome]
    ) -> None:
        """Say what will happen, and what of the nodes it `uses`."""
        self.total, self.over = total, set(kept)
        self.numbers = {repeat: place for place, repeat in enumerate(kept, 1)}
        self.times += [ended.wall_s for ended in kept.values()]
        line = f"campaign {campaign.name}: {total} runs"
        if kept:
            bad = sum(ended.status != "ok" for ended in kept.values())
            line += f", {len(kept)} finished before"
            line += f" ({bad} of them not ok: --again runs them again)" if bad else ""
        self.console.print(one_line(f"{line}; {uses}; folder {campaign.path}"))

    def unreadable(self, attempt: Attempt, ended: Outcome) -> None:
        """Say that a run is made again, since nobody can tell how it ended; its folder stays."""
        line = f"{attempt.path}: {ended.reason}; it is made again, as another attempt"
        self.console.print(one_line(line))

    @contextmanager
    def running(
        self,
        cell: Cell,
        repeat: int,
        attempt: Attempt,
        waiting: Callable[[RunFolder], str] = lambda _: "",
    ) -> Iterator[None]:
        """Show how far a run is, or what it is `waiting` for, until the block ends."""
        title = self._title(cell, repeat)
        shown = _Shown(title, cell, attempt, waiting, time.monotonic())
        with self._lock:
            if not self._shown:
                self._screen.enter_context(showing(self.console, self._lines))
            self._shown[attempt.path] = shown
        try:
            yield
        finally:
            with self._lock:
                del self._shown[attempt.path]
                if not self._shown:
                    self._screen.close()

    def _lines(self) -> list[str]:
        """Write a line for each run that goes on, some of many, and one for all of them."""
        shown = list(self._shown.values())
        queued = [(one, words) for one in shown if (words := one.waiting(one.attempt))]
        names = {one.attempt.path for one, _ in queued}
        going = [one for one in shown if one.attempt.path not in names]
        lines, far = [], []
        for one in going[:MOST_LINES]:
            wanted = one.cell.parameters.get("train_iters")
            elapsed_s = since(one.attempt, time.monotonic() - one.since)
            now = now_of(one.cell, one.attempt, wanted)
            far.append((now.left_s, elapsed_s))
            lines.append(f"{one.title}{on_hosts(one.attempt)}: {progress(now, wanted, elapsed_s)}")
        waiting = self.total - len(self.numbers) + len(queued)
        left = left_s(self.times, waiting, far, at_once=len(going))
        campaign = f", campaign {lasting(left)}" if waiting and left else ""
        if len(shown) == 1:
            line = lines[0] if lines else f"{queued[0][0].title}: {queued[0][1]}"
            return [line + campaign]
        summary = [f"{len(going)} running"] if going else []
        if queued:
            first, words = queued[0]
            summary.append(f"{len(queued)} waiting, first {first.title}: {words}")
        summary.append(f"{len(self.over)} of {self.total} ended{campaign}")
        return [*lines, "; ".join(summary)]

    def ended(
        self, cell: Cell, repeat: int, attempt: Attempt, outcome: Outcome, measured: Measurement
    ) -> None:
        """Print one line on how a run ended."""
        self.times.append(outcome.wall_s)
        self.over.add((cell.id, repeat))
        line = one_line(f"{self._title(cell, repeat)}: ")
        line.append(outcome.status, STYLES.get(outcome.status, "bold red"))
        losses = [item.loss for item in measured.intervals if item.loss is not None]
        if measured.intervals:
            line.append(f", {measured.intervals[-1].iteration} iterations")
        if losses:
            line.append(f", loss {losses[0]:.3f} to {losses[-1]:.3f}")
        if outcome.reason:
            line.append(one_line(f" - {outcome.reason} (logs in {attempt.path})"))
        self.console.print(line)

    def broken(self, asked: tuple[Cell, int], error: Exception) -> None:
        """Say at once that a run could not be carried out, while others go on."""
        words = f"{error}; what runs is followed to its end, and nothing more begins"
        self.console.print(one_line(f"{self._title(*asked)}: {words}", "bold red"))

    def _title(self, cell: Cell, repeat: int) -> str:
        with self._lock:
            number = self.numbers.setdefault((cell.id, repeat), len(self.numbers) + 1)
        title = f"[{number}/{self.total}] {cell.name}"
        return title + (f" repeat {repeat}" if repeat > 1 else "")

    def end(self, tally: Any) -> None:
        """Print one line on the campaign."""
        line = f"{tally.ok} ok, {tally.failed} not ok"
        on = ", the same command goes on" if tally.resumes else ""
        line += f"; stopped by Ctrl-C{on}" if tally.interrupted else ""
        line += f"; stopped by --stop-after{on}" if tally.expired else ""
        self.console.print(line)


def progress(now: Now, wanted: int | None, elapsed_s: float) -> str:
    """Write `iteration 12/50, 98.1 samples/s, loss 5.321, 1024 MiB, 14 s, about 20 s left`."""
    step = now.step
    if step is None:
        return f"starting, {elapsed_s:.0f} s"
    parts = [f"iteration {step.iteration}" + (f"/{wanted}" if wanted else "")]
    if step.samples_per_s is not None:
        parts.append(f"{step.samples_per_s:.1f} samples/s")
    if step.loss is not None:
        parts.append(f"loss {step.loss:.3f}")
    if now.memory_mib is not None:
        parts.append(f"{now.memory_mib:.0f} MiB")
    parts.append(f"{elapsed_s:.0f} s")
    if now.left_s is not None:
        parts.append(lasting(now.left_s))
    return ", ".join(parts)


def lasting(left: float) -> str:
    """Write `about 20 s left`, in minutes from two on."""
    return f"about {left:.0f} s left" if left < 120 else f"about {left / 60:.0f} min left"


def since(attempt: Attempt, elapsed_s: float) -> float:
    """Return the seconds that a run goes on: by its own file where it was queued before."""
    return elapsed_s if attempt.begun_at is None else max(0.0, time.time() - attempt.begun_at)


def on_hosts(attempt: Attempt) -> str:
    """Write ` on a1, a2` of a run that was given its nodes."""
    return f" on {some(list(attempt.hosts.values()))}" if attempt.begun_at is not None else ""
