"""What a person sees while a campaign runs: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from runner import systems
from runner.parsers.latest import latest_step
from runner.records import Interval, Measurement

if TYPE_CHECKING:
    from runner.matrix import Cell
    from runner.outcome import Outcome
    from runner.rundir import Attempt, Campaign

LIVE_S = 0.5  # between two looks at the log, in a terminal
PLAIN_S = 10.0  # between two plain lines elsewhere
STYLES = {"ok": "green", "interrupted": "yellow"}


class View:
    """Progress on standard error, so that standard output stays the table's."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self.count = 0
        self.total = 0

    def begin(self, campaign: Campaign, total: int, kept: Mapping[Any, str]) -> None:
        """Say what will happen."""
        self.total, self.count = total, len(kept)
        words = f"campaign {campaign.name}: {total} runs"
        if kept:
            bad = sum(state != "ok" for state in kept.values())
            words += f", {len(kept)} finished before"
            words += f" ({bad} of them not ok: --again runs them again)" if bad else ""
        self.console.print(f"{words}; folder {campaign.path}", markup=False)

    @contextmanager
    def running(self, cell: Cell, repeat: int, attempt: Attempt) -> Iterator[None]:
        """Show how far a run is, until the block ends."""
        self.count += 1
        title = f"[{self.count}/{self.total}] {cell.name}"
        title += f" repeat {repeat}" if repeat > 1 else ""
        wanted = cell.parameters.get("train_iters")
        parse = systems.load(cell.system).parse

        def line(elapsed_s: float) -> str:
            now = latest_step(parse, attempt.logs())
            return f"{title}: {progress(now, wanted, elapsed_s)}"

        with live(self.console, line):
            yield

    def ended(
        self, cell: Cell, repeat: int, attempt: Attempt, outcome: Outcome, measured: Measurement
    ) -> None:
        """One line on how a run ended."""
        title = f"[{self.count}/{self.total}] {cell.name}"
        title += f" repeat {repeat}" if repeat > 1 else ""
        line = Text(f"{title}: ")
        line.append(outcome.status, STYLES.get(outcome.status, "bold red"))
        losses = [item.loss for item in measured.intervals if item.loss is not None]
        if measured.intervals:
            line.append(f", {measured.intervals[-1].iteration} iterations")
        if losses:
            line.append(f", loss {losses[0]:.3f} to {losses[-1]:.3f}")
        if outcome.reason:
            line.append(f" - {outcome.reason} (logs in {attempt.path})")
        self.console.print(line)

    def end(self, tally: Any) -> None:
        """One line on the campaign."""
        words = f"{tally.ok} ok, {tally.failed} not ok"
        words += "; stopped by Ctrl-C, the same command goes on" if tally.interrupted else ""
        words += "; stopped by --stop-after, the same command goes on" if tally.expired else ""
        self.console.print(words, markup=False)


@contextmanager
def live(console: Console, line: Callable[[float], str]) -> Iterator[None]:
    """Until the block ends, `line` of the seconds since: live in a terminal, else plain lines."""
    began = time.monotonic()
    over = threading.Event()

    def words() -> Text:
        return Text(line(time.monotonic() - began))

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


def progress(now: Interval | None, wanted: int | None, elapsed_s: float) -> str:
    """`iteration 12/50, 98.1 samples/s, loss 5.321, 14 s, about 20 s left`."""
    if now is None:
        return f"starting, {elapsed_s:.0f} s"
    words = [f"iteration {now.iteration}" + (f"/{wanted}" if wanted else "")]
    if now.samples_per_s is not None:
        words.append(f"{now.samples_per_s:.1f} samples/s")
    if now.loss is not None:
        words.append(f"loss {now.loss:.3f}")
    words.append(f"{elapsed_s:.0f} s")
    if wanted and now.step_time_ms:
        words.append(f"about {(wanted - now.iteration) * now.step_time_ms / 1000:.0f} s left")
    return ", ".join(words)
