"""Report a campaign's progress: to a person, to events.jsonl, and to a listener of its events."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from rich.text import Text

from node.program_output import os_error_words
from runner.base.console import Screen, one_line
from runner.base.streams import Leaving
from runner.base.text import counted
from runner.figures.cell_statistics import Enough
from runner.folder import events
from runner.folder.attempt import Attempt, RunFolder
from runner.folder.campaign import Campaign
from runner.folder.events import Event
from runner.folder.stored import UnreadableError
from runner.launch.campaign_status import Running, Status, Waiting, titled
from runner.launch.live import Now, left_s, now_of, speed_of
from runner.launch.progress_layout import Picture
from runner.launch.screen import showing, to_the_bottom
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from runner.terms.record import WELL, Measurement

Repeat = tuple[str, int]  # of a cell, by its id

MOST_LOOKED_AT = 8  # concurrent runs whose logs are read; the others are only counted
SHARED_LOOK_S = 3.0  # between two looks at a run's logs on a file system that nodes share
STYLES = {"ok": "green", "interrupted": "yellow", "ended_early": "yellow"}


@dataclass
class _Shown:
    """A running or waiting run, and what the screen shows of it."""

    title: str
    cell: Cell
    attempt: Attempt
    waiting: Callable[[RunFolder], str]
    since: float  # of the monotonic clock
    progress: Running | None = None  # as last read from its logs
    progress_at: float = 0.0  # when that was, of the monotonic clock

    def look(self) -> Running:
        """Read how far the run is; on a shared file system at most every SHARED_LOOK_S seconds."""
        now = time.monotonic()
        elapsed_s = now - self.since
        if self.progress is None or now - self.progress_at >= SHARED_LOOK_S:
            self.progress = running_of(self.title, self.cell, self.attempt, elapsed_s)
            self.progress_at = now if self.attempt.handed_over else float("-inf")
        return self.progress


class View:
    """Progress on standard error, so that standard output stays the table's.

    Each event also goes to `tell`. `watched`: whether standard error is a terminal; None: detect.
    Thread-safe: concurrent runs have a thread each.
    """

    def __init__(
        self,
        console: Screen | None = None,
        tell: Callable[[Event], None] = lambda _: None,
        *,
        watched: bool | None = None,
    ) -> None:
        stream = cast("IO[str]", Leaving())
        self.console = console or Screen(file=stream, soft_wrap=True, force_terminal=watched)
        self.tell = tell
        self.campaign: Campaign | None = None
        self.total = 0
        self.todo: Sequence[tuple[Cell, int]] = ()
        self.numbers: dict[Repeat, int] = {}  # of repeats that have begun or ended; not of attempts
        self.over: dict[Repeat, str] = {}  # the status that each ended with
        self.times: list[float] = []  # seconds that ended runs took
        self._shown: dict[Path, _Shown] = {}
        self._screen = ExitStack()
        self._lock = threading.RLock()

    def begin(
        self,
        campaign: Campaign,
        total: int,
        uses: str,
        kept: Mapping[Repeat, Outcome],
        todo: Sequence[tuple[Cell, int]] = (),
    ) -> None:
        """Print what will run, in the order of `todo`; `uses` says which nodes and devices."""
        self.campaign, self.total, self.todo = campaign, total, todo
        self.over = {repeat: ended.status for repeat, ended in kept.items()}
        self.numbers = {repeat: number for number, repeat in enumerate(kept, 1)}
        self.times += [ended.wall_s for ended in kept.values()]
        to_the_bottom(self.console)
        line = f"campaign {campaign.name}: {counted(total, 'run')}"
        if kept:
            bad = sum(ended.status not in WELL for ended in kept.values())
            line += f", {len(kept)} already done"
            line += f" ({bad} of them not ok: --failed runs them again)" if bad else ""
        self.console.print(one_line(f"{line}; {uses}; folder {campaign.path}"))
        folder = str(campaign.path.resolve())
        self._happened(events.CAMPAIGN_BEGUN, folder=folder, runs=total, kept=len(kept))

    def hidden(self, words: str) -> None:
        """Print which results the campaign keeps but does not show, if any."""
        if words:
            self.console.print(one_line(words))

    def unreadable(self, attempt: Attempt, ended: Outcome) -> None:
        """Say that a run starts again, since its outcome cannot be read; its folder stays."""
        line = f"{attempt.path}: {ended.reason}; it runs again, as a new attempt"
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
        begun = self._run_event(events.RUN_BEGUN, cell, repeat, attempt)
        running = _Shown(begun.title, cell, attempt, waiting, time.monotonic())
        self._told(begun)
        with self._lock:
            self._shown[attempt.path] = running
            if len(self._shown) == 1:
                self._screen.enter_context(showing(self.console, self._look))
        try:
            yield
        finally:
            with self._lock:
                del self._shown[attempt.path]
                if not self._shown:
                    self._screen.close()

    def _look(self) -> Picture:
        return Picture(self.status())

    def status(self) -> Status:
        """Return the status; of many concurrent runs, only the first MOST_LOOKED_AT in detail."""
        queued, runs = [], []
        for shown in list(self._shown.values()):
            if reason := shown.waiting(shown.attempt):
                ids = (shown.cell.name, shown.attempt.repeat, shown.attempt.number)
                queued.append(Waiting(*ids, title=shown.title, words=reason))
            else:
                runs.append(shown)
        running = [run.look() for run in runs[:MOST_LOOKED_AT]]
        waiting = self.total - len(self.numbers) + len(queued)
        times_now = [(run.left_s, run.elapsed_s) for run in running]
        return Status(
            campaign=self.campaign.name if self.campaign else "",
            runs=self.total,
            ended=dict(Counter(dict(self.over).values())),
            left_s=left_s(self.times, waiting, times_now, at_once=len(runs)) if waiting else None,
            runs_now=tuple(running),
            others=len(runs) - len(running),
            queued=tuple(queued),
            next=tuple(
                titled(cell.name, repeat)
                for cell, repeat in self.todo
                if (cell.id, repeat) not in self.numbers
            ),
        )

    def ended(
        self, cell: Cell, repeat: int, attempt: Attempt, outcome: Outcome, measured: Measurement
    ) -> None:
        """Print one line on how a run ended."""
        self.times.append(outcome.wall_s)
        self.over[cell.id, repeat] = outcome.status
        losses = [item.loss for item in measured.intervals if item.loss is not None]
        ended = replace(
            self._run_event(events.RUN_ENDED, cell, repeat, attempt),
            status=outcome.status,
            cause=outcome.cause,
            reason=outcome.reason,
            samples_per_s=_speed(cell, attempt, measured),
            iterations=measured.intervals[-1].iteration if measured.intervals else None,
            first_loss=losses[0] if losses else None,
            last_loss=losses[-1] if losses else None,
            wall_s=outcome.wall_s,
        )
        self.console.print(ended_line(ended))
        self._told(ended)

    def broken(self, asked: tuple[Cell, int], error: Exception) -> None:
        """Say at once that a run could not be carried out, while others go on."""
        cell, repeat = asked
        title = self._run_event(events.RUN_BEGUN, cell, repeat).title
        message = f"{error}; running cells are followed to their end, and no new run starts"
        self.console.print(one_line(f"{title}: {message}", "bold red"))

    def more(self, todo: Sequence[tuple[Cell, int]], words: str) -> None:
        """Add repeats that were requested while the campaign ran, and print why."""
        self.total += len(todo)
        self.todo = [*self.todo, *todo]
        if todo and words:
            self.console.print(one_line(words))

    def known(self, cell: Cell, judged: Enough, until_percent: float | None) -> None:
        """Print how precisely a cell has been measured so far."""
        target_missed = "" if judged.met else f"; not below {until_percent:g} %"
        self.console.print(one_line(f"{cell.name}: {judged.words}{target_missed}"))

    def end(self, tally: Any) -> None:
        """Print one line on the campaign."""
        line = f"{tally.ok} ok, {tally.failed} not ok"
        not_run = self.total - tally.ok - tally.failed
        line += f", {not_run} not run" if not_run > 0 else ""
        on = "; run the same command to resume" if tally.resumes else ""
        by = "stopped by Ctrl-C" if tally.interrupted else ""
        by = f"stopped after --stop-after {tally.limit_s:g}" if tally.expired else by
        self.console.print(f"{line}; {by}{on}" if by else line)
        if tally.submitted:
            self.console.print(
                f"{counted(tally.submitted, 'run')} in the queue; you may log out. `status` shows"
                " their progress; the same command without --submit collects their results"
            )
        self._ended(by, ok=tally.ok, not_ok=tally.failed, kept=tally.kept)

    def broken_off(self, error: BaseException) -> None:
        """Record that a running bench ended by an error, before all runs were done."""
        if self.campaign is not None:
            good = list(self.over.values()).count("ok")
            why = str(error) or type(error).__name__
            self._ended(f"it ended early: {why}", ok=good, not_ok=len(self.over) - good)

    def _ended(self, reason: str, **more: Any) -> None:
        folder = str(self.campaign.path.resolve()) if self.campaign else ""
        more |= {"folder": folder, "runs": self.total, "reason": reason}
        self._happened(events.CAMPAIGN_ENDED, **more)

    def _run_event(
        self, kind: str, cell: Cell, repeat: int, attempt: Attempt | None = None
    ) -> Event:
        with self._lock:
            number = self.numbers.setdefault((cell.id, repeat), len(self.numbers) + 1)
        return Event(
            event=kind,
            at=time.time(),
            campaign=self.campaign.name if self.campaign else "",
            folder=str(attempt.path.resolve()) if attempt else "",
            cell=cell.name,
            repeat=repeat,
            attempt=attempt.number if attempt else None,
            number=number,
            runs=self.total,
        )

    def _happened(self, kind: str, **more: Any) -> None:
        name = self.campaign.name if self.campaign else ""
        self._told(Event(event=kind, at=time.time(), campaign=name, **more))

    def _told(self, event: Event) -> None:
        """Store an event and pass it on; a failure to store it does not stop the campaign."""
        if self.campaign is None:
            return
        try:
            with self._lock:
                events.add(self.campaign.path, event)
        except FileNotFoundError:  # nothing ran, so its folder was removed
            pass
        except OSError as error:
            why = os_error_words(error, str(self.campaign.path))
            self.console.print(one_line(f"events.jsonl cannot be written: {why}"))
        self.tell(event)


def ended_line(event: Event) -> Text:
    """Write `[1/4] zero_stage=0: ok, 189.0 samples/s, loss 7.273 to 4.444, 8 iterations, 12 s`."""
    line = one_line(f"{event.title}: ")
    line.append(one_line(event.status, STYLES.get(event.status, "bold red")))
    if event.samples_per_s is not None:
        line.append(f", {event.samples_per_s:.1f} samples/s")
    if event.first_loss is not None and event.last_loss is not None:
        line.append(f", loss {event.first_loss:.3f} to {event.last_loss:.3f}")
    if event.iterations is not None:
        line.append(f", {event.iterations} iterations, {event.wall_s or 0:.0f} s")
    if event.reason:
        line.append(one_line(f" - {event.reason} (logs in {event.folder})"))
    return line


def _speed(cell: Cell, attempt: Attempt, measured: Measurement) -> float | None:
    try:
        return speed_of(cell, attempt, measured)
    except Exception:  # any damage: this is only a progress line, and the table says why
        return None


def running_of(title: str, cell: Cell, attempt: Attempt, elapsed_s: float) -> Running:
    """Return how far a run is."""
    train_iters = cell.parameters.get("train_iters")
    now: Now = now_of(cell, attempt, train_iters)
    begun = attempt.begun_at
    step = now.step
    if begun is not None:  # of a queued run: the time in its own file
        elapsed_s = max(0.0, time.time() - begun)
    return Running(
        cell=cell.name,
        repeat=attempt.repeat,
        attempt=attempt.number,
        elapsed_s=round(elapsed_s, 1),
        folder=str(attempt.path),
        hosts=hosts_of(attempt) if begun is not None else (),
        iteration=step.iteration if step else None,
        train_iters=train_iters,
        samples_per_s=step.samples_per_s if step else None,
        loss=step.loss if step else None,
        memory_used_mib=now.memory_used_mib,
        memory_rss_mib=now.memory_rss_mib,
        tokens_per_s=now.tokens_per_s,
        power_w=now.power_w,
        left_s=now.left_s,
        title=title,
    )


def hosts_of(attempt: Attempt) -> tuple[str, ...]:
    """Return a run's nodes by rank; none if its folder does not name them."""
    try:
        return tuple(attempt.hosts.values())
    except UnreadableError:
        return ()
