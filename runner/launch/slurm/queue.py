"""The queue, as all runs of a campaign see it: one question for all of them, and seldom.

A thread asks squeue while somebody watches a job: each second at first, then half as often each
time, up to a minute while nothing changes. A job that squeue does not know has not
ended: scontrol is asked, then sacct; while the controller is away, the last known state holds.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from runner.folder.queued import Queued
from runner.folder.stored import write_json
from runner.launch.slurm import commands
from runner.launch.slurm.answers import QueuedJob
from runner.launch.slurm.commands import SlurmError
from runner.launch.slurm.ends import AnswersForSlurm, end_of
from runner.launch.slurm.states import WAITING, Ended, forgotten, is_held, job_end, never_starts

SHORTEST_S = 1.0  # between two questions
LONGEST_S = 60.0  # what administrators ask for
SILENT_S = 15.0  # the longest while the controller is away, who has no work by it
PLACE_S = 30.0  # between two questions for the places of jobs that wait
WRITTEN_S = 30.0  # between two times that the same is written down
YEAR_S = 366 * 86_400
MOST_REASON = 100  # letters
NEW_S = 5.0  # where one of them has none yet
FORGOTTEN_AFTER = 2  # times that squeue, scontrol and sacct know nothing of a job
LASTING_S = 10.0  # that a reason lasts which can never be met


@dataclass
class _Known:
    """What is known of a job that somebody watches; `file` is its run's queue.json."""

    watchers: int = 0
    file: Path | None = None
    written: Queued | None = None
    job: QueuedJob | None = None
    asked_at: float = 0.0  # epoch seconds
    since: float = 0.0  # when it got the reason that it waits for
    place: int | None = None
    unknown: int = 0  # times in a row that nobody knew it
    ended: Ended | None = None

    @property
    def queued(self) -> Queued:
        """Where it stands."""
        return queued_of(self.job, self.place, self.asked_at) if self.job else Queued()


def queued_of(job: QueuedJob, place: int | None, asked_at: float) -> Queued:
    """Return where a job stands, as its run's folder keeps it."""
    release = f" (`scontrol release {job.id}` lets it go)" if is_held(job.reason) else ""
    waits = job.state in WAITING
    # Slurm names a day in a thousand years for what cannot start as things are.
    soon = job.starts_at is not None and job.starts_at < asked_at + YEAR_S
    return Queued(
        state=job.state,
        reason=(job.reason + release)[:MOST_REASON],
        position=place if waits else None,
        expected_start=job.starts_at if waits and soon else None,
        asked_at=round(asked_at, 3),
        job_id=str(job.id),
    )


class Queue:
    """What Slurm says of watched jobs. Threads may use it at once; no answer of it takes time.

    `longest_s` is the longest time between two questions: shorter for an allocation, whose nodes
    wait for us.
    """

    def __init__(
        self,
        longest_s: float = LONGEST_S,
        asked: AnswersForSlurm = commands,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.longest_s = longest_s
        self._asked = asked
        self._clock = clock
        self._turn = threading.Condition()  # held for what stands below
        self._known: dict[int, _Known] = {}
        self._thread: threading.Thread | None = None
        self._pause_s = SHORTEST_S
        self._hurry = False
        self._failed: Exception | None = None
        self._silent_since: float | None = None
        self._placed_at: float | None = None
        self._places_seen: bool | None = None

    @contextmanager
    def watching(self, number: int, file: Path | None = None) -> Iterator[None]:
        """Have a job asked for while the block lasts, and where it stands written into `file`."""
        with self._turn:
            watched = self._known.setdefault(number, _Known(file=file))
            watched.watchers += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, daemon=True)
                self._thread.start()
        self.soon()
        try:
            yield
        finally:
            with self._turn:
                self._known[number].watchers -= 1
                if not self._known[number].watchers:
                    del self._known[number]
                self._turn.notify_all()

    def soon(self) -> None:
        """Have Slurm asked soon: who calls this expects a change."""
        with self._turn:
            self._hurry, self._pause_s = True, SHORTEST_S / 2
            self._turn.notify_all()

    def look(self, number: int) -> QueuedJob | None:
        """Return what was heard last of a watched job; None before that."""
        with self._turn:
            return self._known[number].job if number in self._known else None

    def ended(self, number: int) -> Ended | None:
        """Return why a job has ended; None while it goes on, or nobody knows.

        One that nobody watches is asked for now.
        """
        with self._turn:
            if self._failed is not None:
                raise self._failed
            watched = self._known.get(number)
        if watched is not None:
            return watched.ended
        try:
            return end_of(self._asked, number)[0]
        except SlurmError:
            return None

    def never_starts(self, number: int) -> Ended | None:
        """Return why a watched job will never start; None where it may."""
        with self._turn:
            watched = self._known.get(number)
            if watched is None or watched.job is None or watched.job.state not in WAITING:
                return None
            lasts = self._clock() - watched.since >= LASTING_S
            return never_starts(number, watched.job.reason) if lasts else None

    def words(self, number: int) -> str:
        """Say what a watched job that has not begun waits for."""
        with self._turn:
            watched, silent = self._known.get(number), self._silent_since
            waiting_text = watched.queued.words() if watched and not watched.ended else ""
        if silent is None or not waiting_text:
            return waiting_text
        return f"{waiting_text}; Slurm's controller is silent for {self._clock() - silent:.0f} s"

    # -- the thread ----------------------------------------------------------------------------

    def _follow(self) -> None:
        """Ask until nobody watches a job any more."""
        while True:
            with self._turn:
                if not self._known:
                    self._thread = None
                    return
                self._hurry = False
            try:
                self.ask()
            except Exception as error:  # the watchers' own threads say it
                self._failed = error
            with self._turn:
                began = self._clock()
                self._turn.wait_for(lambda: self._hurry or not self._known, self._pause_s)
                remaining_s = SHORTEST_S - (self._clock() - began)
                if self._known and remaining_s > 0:
                    self._turn.wait_for(lambda: not self._known, remaining_s)

    def ask(self) -> float:
        """Ask once for all watched jobs that go on; how long nothing needs to be asked again."""
        with self._turn:
            numbers = [number for number, watched in self._known.items() if watched.ended is None]
        changed = False
        try:
            changed = self._hear(numbers, self._asked.jobs(numbers))
            self._silent_since = None
            with suppress(SlurmError):  # a place is a courtesy
                self._find_places()
            self._write()
        except SlurmError:
            self._silent_since = self._silent_since or self._clock()
        longest_s = self.longest_s if self._silent_since is None else SILENT_S
        with self._turn:
            self._pause_s = SHORTEST_S if changed else min(2 * self._pause_s, longest_s)
            return self._pause_s

    def _hear(self, numbers: Iterable[int], jobs: Mapping[int, QueuedJob]) -> bool:
        """Note what squeue said; whether anything has changed."""
        changed = False
        for number in numbers:
            job = jobs.get(number)
            goes_on = job is not None and job_end(number, job.state) is None
            end, heard_of = (None, True) if goes_on else end_of(self._asked, number, job)
            with self._turn:
                if number in self._known:
                    changed |= self._note(self._known[number], number, job, end, heard_of)
        return changed

    def _note(
        self, known: _Known, number: int, job: QueuedJob | None, end: Ended | None, heard_of: bool
    ) -> bool:
        known.unknown = 0 if heard_of else known.unknown + 1
        known.ended = forgotten(number) if known.unknown >= FORGOTTEN_AFTER else end
        if job is None:
            return True
        was, known.job, known.asked_at = known.job, job, time.time()
        if was is None or was.reason != job.reason:
            known.since = self._clock()
        return was is None or was.state != job.state or end is not None

    def _write(self) -> None:
        """Write down where jobs stand that changed, or have said so a while ago."""
        with self._turn:
            queued_jobs = [
                (watched, watched.queued) for watched in self._known.values() if watched.job
            ]
        for watched, queued in queued_jobs:
            was = watched.written
            same = was is not None and replace(was, asked_at=queued.asked_at) == queued
            if watched.file is None or (
                was and same and queued.asked_at - was.asked_at < WRITTEN_S
            ):
                continue
            with suppress(OSError):  # a full disk here must not end a run
                write_json(watched.file, queued.to_json())
                watched.written = queued

    def _find_places(self) -> None:
        """Ask which places jobs that wait have, now and then, where one may see the others'."""
        with self._turn:
            waiting = {
                watched.job: watched.place
                for watched in self._known.values()
                if watched.job is not None and watched.job.state == "PENDING"
            }
        now, patience_s = self._clock(), NEW_S if None in waiting.values() else PLACE_S
        if not waiting or (self._placed_at is not None and now - self._placed_at < patience_s):
            return
        self._placed_at = now
        if self._places_seen is None:
            private = self._asked.configuration().get("PrivateData", "")
            self._places_seen = "jobs" not in private.split(",")
        if self._places_seen:
            places = self._asked.ahead(waiting)
            with self._turn:
                for number, position in places.items():
                    if number in self._known:
                        self._known[number].place = position + 1
