"""What a person sees while a campaign runs: a live line in a terminal, plain lines elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

from rich.text import Text

from runner.base.console import Screen, one_line
from runner.base.streams import Leaving
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.launch.live import Now, left_s, now_of
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import Measurement

LIVE_S = 0.5  # between two looks at the log, in a terminal
PLAIN_S = 10.0  # between two plain lines elsewhere
STYLES = {"ok": "green", "interrupted": "yellow"}


class View:
    """Progress on standard error, so that standard output stays the table's."""

    def __init__(self, console: Screen | None = None) -> None:
        stream = cast("IO[str]", Leaving())
        self.console = console or Screen(file=stream, soft_wrap=True)
        self.total = 0
        self.seen: set[tuple[str, int]] = set()  # repeats that ended before, or began: not attempts
        self.times: list[float] = []  # seconds that ended runs took

    def begin(self, campaign: Campaign, total: int, uses: str, kept: Mapping[Any, Outcome]) -> None:
        """Say what will happen, and what of the nodes it `uses`."""
        self.total, self.seen = total, set(kept)
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
    def running(self, cell: Cell, repeat: int, attempt: Attempt) -> Iterator[None]:
        """Show how far a run is, until the block ends."""
        self.seen.add((cell.id, repeat))
        title = self._title(cell, repeat)
        wanted = cell.parameters.get("train_iters")
        waiting = self.total - len(self.seen)

        def line(elapsed_s: float) -> str:
            now = now_of(cell.system, attempt, wanted)
            shown = f"{title}: {progress(now, wanted, elapsed_s)}"
            left = left_s(self.times, waiting, now.left_s, elapsed_s)
            return shown + (f", campaign {lasting(left)}" if waiting and left else "")

        with live(self.console, line):
            yield

    def ended(
        self, cell: Cell, repeat: int, attempt: Attempt, outcome: Outcome, measured: Measurement
    ) -> None:
        """Print one line on how a run ended."""
        self.times.append(outcome.wall_s)
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

    def _title(self, cell: Cell, repeat: int) -> str:
        title = f"[{len(self.seen)}/{self.total}] {cell.name}"
        return title + (f" repeat {repeat}" if repeat > 1 else "")

    def end(self, tally: Any) -> None:
        """Print one line on the campaign."""
        line = f"{tally.ok} ok, {tally.failed} not ok"
        on = ", the same command goes on" if tally.resumes else ""
        line += f"; stopped by Ctrl-C{on}" if tally.interrupted else ""
        line += f"; stopped by --stop-after{on}" if tally.expired else ""
        self.console.print(line)


@contextmanager
def live(console: Screen, line: Callable[[float], str]) -> Iterator[None]:
    """Show, until the block ends, `line` of the seconds since: live in a terminal, else
    plain lines.
    """
    began = time.monotonic()
    over = threading.Event()

    def words() -> Text:
        try:
            return one_line(line(time.monotonic() - began))
        except Exception as error:  # of what has come of a log so far; the run itself goes on
            return one_line(f"how far it is cannot be read: {error}")

    def watch() -> None:
        if console.is_terminal:
            with console.status(words()) as status:
                while not over.wait(LIVE_S):
                    status.update(words())
            return
        while not over.wait(PLAIN_S):
            console.print(words())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


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
