"""Mode `allocation`: one allocation for a whole campaign, whose runs are steps, one after another.

It is the one that bench was started in, or a job of its own that ends soon after nobody renews a
lease: a bench that was killed leaves it to the next one for a while, and no longer.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from node.causes import Cause
from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.stored import write_script
from runner.launch.engine import Wanted
from runner.launch.screen import live
from runner.launch.slurm import commands, handover
from runner.launch.slurm.answers import MARK, JobRecord
from runner.launch.slurm.commands import ControllerError
from runner.launch.slurm.job_script import allocation_script
from runner.launch.slurm.program import PYTHON, argv, leave
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.step import LEASE, RENEW_S, Allocation
from runner.terms.cluster import Cluster
from runner.terms.engines.slurm import Slurm

OUR_JOB = "SLURM_JOB_ID"
GPUS_IN_ALL = "SLURM_GPUS"  # what salloc --gpus was given
HOLD = "supervisor.allocation:hold"
GOES_ON = ("PENDING", "CONFIGURING", "RUNNING")
RUNNING = "RUNNING"
LEFT_S = 30.0  # for a run that a killed bench left to end
ABANDONED_S = 600.0  # for another bench to go on in an allocation that nobody renews


@dataclass(frozen=True)
class Span:
    """How many nodes an allocation has to have, with how many devices, and for how long: for all
    runs, and for one.
    """

    nodes: int
    devices: int
    time_s: float
    run_s: float


def span_of(wanted: Wanted) -> Span:
    """Return what a campaign's runs need, one after the other."""
    one_s = wanted.time_limit_s
    return Span(wanted.nodes, wanted.devices, one_s * len(wanted.cells), one_s)


def asked_for(slurm: Slurm, span: Span) -> Span:
    """Return a span with the time that is asked for: no more than its partition gives."""
    longest_s = commands.partition_limit_s(slurm.partition)
    if longest_s is None:
        return span
    return replace(span, time_s=min(span.time_s, longest_s - slurm.time_margin_s))


def script_of(slurm: Slurm, span: Span, campaign: Path, mark: str) -> str:
    """Write the job that holds the nodes of a campaign, whose folder is `campaign`."""
    folder = campaign / names.ALLOCATION
    arguments = {"lease": str(folder / LEASE), "lease_s": ABANDONED_S}
    return allocation_script(
        slurm,
        name=campaign.name,
        nodes=span.nodes,
        devices=span.devices,
        time_s=span.time_s,
        output=PurePosixPath(folder / names.SUBMIT_OUTPUT),
        comment=MARK + mark,
        command=argv(PYTHON, HOLD, campaign, arguments),
    )


@dataclass
class Allocating:
    """An allocation of a campaign's own: its folder, its lease, its job.

    `now` is the one that it has; another takes its place where its time runs out.
    """

    cluster: Cluster
    slurm: Slurm
    queue: Queue
    secrets: Mapping[str, str]
    span: Span
    campaign: Path
    now: Allocation | None = None
    ours: int | None = None

    @contextmanager
    def held(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Hold nodes for a campaign: of the allocation that we are in, of the campaign's last, or
        of a new one.

        Raises UserError where it is too small, or Slurm would not give it; KeyboardInterrupt.
        """
        inside = os.environ.get(OUR_JOB, "")
        if inside.isdecimal():
            hosts = _hosts(int(inside))
            if len(hosts) < self.span.nodes:
                raise UserError(
                    f"the allocation {inside} has {len(hosts)} nodes and a cell needs"
                    f" {self.span.nodes}; ask salloc for more, or start bench outside of one"
                )
            gpus_in_all = bool(os.environ.get(GPUS_IN_ALL))
            self.now = replace(self._of(int(inside), hosts), gpus_in_all=gpus_in_all)
            try:
                yield
            finally:
                self.release()
            return
        with self.renewed():
            try:
                self.granted(cancelled)
                yield
            finally:
                self.release()

    def granted(self, cancelled: Callable[[], bool]) -> Allocation:
        """Return an allocation with time for one more run. Raises as `held` does."""
        if self.now is not None and (self.ours is None or self.lasts(self.ours)):
            return self.now
        taken_over = None if self.ours else self.last()
        self.release()
        number = self.ours = taken_over or self.submit()
        hosts = self._wait(number, cancelled)
        self.now = self._of(number, hosts)
        return self.now

    def _of(self, number: int, hosts: tuple[str, ...]) -> Allocation:
        return Allocation(self.cluster, self.slurm, self.queue, self.secrets, number, hosts)

    def lasts(self, number: int) -> bool:
        """Whether an allocation has time for one more run; so it is taken while nobody knows."""
        try:
            return not self.runs_out(commands.job(number))
        except ControllerError:
            return True

    def runs_out(self, record: JobRecord | None) -> bool:
        """Whether an allocation is over, or will be before one more run of the campaign is."""
        if record is None or record.state not in GOES_ON:
            return True
        if record.state != RUNNING or record.ends_at is None:
            return False
        needed_s = self.span.run_s + self.slurm.time_margin_s / 2
        return record.ends_at - time.time() < needed_s

    def release(self) -> None:
        """Leave nothing on the nodes; give them back, of an allocation of our own."""
        now, number, self.ours, self.now = self.now, self.ours, None, None
        if now is not None:
            now.forget()
        if number is not None:
            with suppress(ControllerError):  # its lease ends it
                commands.cancel([number])

    @property
    def run(self) -> RunFolder:
        """The folder in which the allocation is written down, as a run's job is."""
        return RunFolder(self.campaign / names.ALLOCATION)

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease while the block lasts."""
        self.run.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lease, over = self.run.path / LEASE, threading.Event()

        def renew() -> None:
            while not over.wait(RENEW_S):
                with suppress(OSError):  # as of a file server that is away for a while
                    lease.touch()

        lease.touch()
        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def last(self) -> int | None:
        """Return the campaign's last allocation, where it goes on and is large and long enough.

        What a bench that was killed left in it is ended first.
        """
        was = handover.submitted(self.run)
        if was is None:
            return None
        job_id = was.job_id or handover.found(was)
        record = commands.job(job_id) if job_id else None
        if record is None or record.state not in GOES_ON:
            return None
        small = record.state == RUNNING and len(_hosts(record.id)) < self.span.nodes
        if small or self.runs_out(record):
            self.ours = record.id
            self.release()
            return None
        self.end_steps(record.id)
        return record.id

    def end_steps(self, number: int) -> None:
        """End the runs that go on in an allocation without the bench that started them."""
        for folder in self.campaign.glob(names.ATTEMPTS):
            run = RunFolder(folder)
            submitted = handover.submitted(run)
            if submitted is not None and submitted.job_id == number and not handover.over(run):
                run.ask_to_halt(Cause.CONTROL_LOST, "the process that ran bench is gone")
                handover.await_records(run, LEFT_S)

    def submit(self) -> int:
        """Ask for the nodes."""
        submitted = handover.begun(self.run)
        script = self.run.path / names.SUBMIT_SCRIPT
        campaign = self.campaign.resolve()
        leave(HOLD, campaign)
        span = asked_for(self.slurm, self.span)
        text = script_of(self.slurm, span, campaign, submitted.mark)
        write_script(script, text)
        number = commands.submit(script, {})
        handover.known(self.run, submitted, number)
        return number

    def _wait(self, number: int, cancelled: Callable[[], bool]) -> tuple[str, ...]:
        """Wait for the nodes, and return them. Raises UserError where they do not come."""

        def line(elapsed_s: float) -> str:
            return f"allocation {number}: {self.queue.words(number)}, {elapsed_s:.0f} s"

        with self.queue.watching(number), live(Screen(stderr=True, soft_wrap=True), line):
            while True:
                if cancelled():
                    raise KeyboardInterrupt
                job = self.queue.look(number)
                if job is not None and job.state == "RUNNING":
                    return commands.hosts(job.nodes)
                ended = self.queue.ended(number) or self.queue.never_starts(number)
                if ended is not None:
                    raise UserError(f"the allocation did not begin: {ended.words}")
                time.sleep(handover.POLL_S)


def _hosts(number: int) -> tuple[str, ...]:
    record = commands.job(number)
    if record is None or not record.nodes:
        raise UserError(f"Slurm knows no nodes of job {number}; start bench outside of it")
    return commands.hosts(record.nodes)
