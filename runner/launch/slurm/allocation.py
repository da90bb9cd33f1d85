"""Mode `allocation`: one allocation for a whole campaign, whose runs are steps, one after another.

It is the one that bench was started in, or a job of its own that ends soon after nobody renews a
lease: a bench that was killed leaves it to the next one for a while, and no longer.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runner.base.console import Screen
from runner.base.errors import UserError
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.folder.placement import Submitted
from runner.launch.engine import Wanted
from runner.launch.screen import live
from runner.launch.slurm import commands, handover
from runner.launch.slurm.answers import MARK
from runner.launch.slurm.commands import ControllerError
from runner.launch.slurm.program import PYTHON, argv, leave
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.variables import clean_environment
from runner.plan.slurm_job import allocation_script, srun_argv
from runner.terms.cluster import Cluster
from runner.terms.orders import Orders
from runner.terms.slurm import Slurm

OUR_JOB = "SLURM_JOB_ID"
HOLD = "supervisor.holder:hold"
LEASE = "lease"
RENEW_S = 1.0
LOST_S = 60.0  # a shared folder may show a renewed lease so late
ABANDONED_S = 600.0  # for another bench to go on in an allocation that nobody renews
ENDING_S = 15.0
WAIT_S = 0.5


def step_of(
    cluster: Cluster,
    campaign: Path,
    run: Path,
    orders: Orders,
    mark: str,
    job_id: str,
    hosts: Sequence[str],
) -> tuple[str, ...]:
    """Return what starts a run as a step of an allocation; `campaign` and `run` are folders."""
    assert cluster.slurm is not None
    told = {
        "mark": mark,
        "lease": str(run / LEASE),
        "lost_contact_s": max(LOST_S, cluster.lost_contact_s),
    }
    return srun_argv(
        cluster.slurm,
        len(orders.nodes),
        handover.task(campaign, run, orders, told),
        orders=orders,
        job_id=job_id,
        nodelist=hosts,
        output=PurePosixPath(run / names.SUBMIT_OUTPUT),
        overlap=True,
    )


def start(step: Sequence[str], secrets: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a step of an allocation, which says what it has to say in a file."""
    return subprocess.Popen(
        step,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=clean_environment(secrets),
        start_new_session=True,  # Ctrl-C is bench's, which ends the run by its own means
    )


@dataclass(frozen=True)
class Span:
    """How many nodes an allocation has to have, and for how long."""

    nodes: int
    time_s: float


def span_of(wanted: Wanted) -> Span:
    """Return what a campaign's runs need, one after the other."""
    return Span(wanted.nodes, wanted.time_limit_s * len(wanted.cells))


def script_of(slurm: Slurm, span: Span, campaign: Path, mark: str) -> str:
    """Write the job that holds the nodes of a campaign, whose folder is `campaign`."""
    folder = campaign / names.ALLOCATION
    arguments = {"lease": str(folder / LEASE), "lost_contact_s": ABANDONED_S}
    return allocation_script(
        slurm,
        name=campaign.name,
        nodes=span.nodes,
        time_s=span.time_s,
        output=PurePosixPath(folder / names.SUBMIT_OUTPUT),
        comment=MARK + mark,
        command=argv(PYTHON, HOLD, campaign, arguments),
    )


@dataclass(frozen=True)
class Allocation:
    """Nodes that a campaign has for itself."""

    cluster: Cluster
    queue: Queue
    secrets: Mapping[str, str]
    job_id: int
    hosts: tuple[str, ...]

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's: start a step, and renew its lease until it is over."""
        hosts = self.hosts[: len(orders.nodes)]
        lease = run.path / LEASE
        lease.touch()
        submitted = handover.known(run, handover.begun(run), self.job_id)
        campaign = folder.path.resolve()
        leave(handover.TASK, campaign)
        job = f"{self.job_id}"
        step = start(
            step_of(self.cluster, campaign, run.path.resolve(), orders, submitted.mark, job, hosts),
            self.secrets,
        )
        with step:
            self._follow(step, run, orders, lease, cancelled)
        handover.await_records(run, WAIT_S if step.returncode else handover.LATE_S)
        if handover.needs_reason(run) and (ended := self.queue.ended(self.job_id)):
            handover.settle(run, ended)
        return handover.last_words(run) or f"srun ended with exit code {step.returncode}"

    def _follow(
        self,
        step: subprocess.Popen[bytes],
        run: RunFolder,
        orders: Orders,
        lease: Path,
        cancelled: Callable[[], bool],
    ) -> None:
        ending: float | None = None
        while step.poll() is None:
            if run.halt is None:
                os.utime(lease)
            else:
                ending = ending or time.monotonic()
                if cancelled():
                    step.kill()  # nobody waits for it; its lease ends the step
                elif time.monotonic() - ending > orders.limits.grace_s + ENDING_S:
                    step.terminate()  # srun ends its step
            try:
                step.wait(RENEW_S if ending is None else 0.1)
            except subprocess.TimeoutExpired:
                continue


@dataclass(frozen=True)
class Allocating:
    """An allocation of a campaign's own: its folder, its lease, its job."""

    cluster: Cluster
    queue: Queue
    secrets: Mapping[str, str]
    span: Span
    campaign: Path

    @contextmanager
    def held(self, cancelled: Callable[[], bool]) -> Iterator[Allocation]:
        """Hold the nodes: of the allocation that we are in, of the campaign's last, or of a new
        one.

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
            yield Allocation(self.cluster, self.queue, self.secrets, int(inside), hosts)
            return
        with self.renewed():
            number = self.last() or self.submit()
            try:
                hosts = self.granted(number, cancelled)
                yield Allocation(self.cluster, self.queue, self.secrets, number, hosts)
            finally:
                _release(number)

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
        """Return the campaign's last allocation, where it has not ended and is large enough."""
        was = handover.submitted(self.run)
        if was is None:
            return None
        job_id = was.job_id or _found(was)
        record = commands.job(job_id) if job_id else None
        if record is None or record.state not in ("PENDING", "CONFIGURING", "RUNNING"):
            return None
        if record.state == "RUNNING" and len(_hosts(record.id)) < self.span.nodes:
            _release(record.id)
            return None
        return record.id

    def submit(self) -> int:
        """Ask for the nodes."""
        submitted = handover.begun(self.run)
        script = self.run.path / names.SUBMIT_SCRIPT
        assert self.cluster.slurm is not None
        campaign = self.campaign.resolve()
        leave(HOLD, campaign)
        text = script_of(self.cluster.slurm, self.span, campaign, submitted.mark)
        script.write_text(text, encoding="utf-8")
        number = commands.submit(script, {})
        handover.known(self.run, submitted, number)
        return number

    def granted(self, number: int, cancelled: Callable[[], bool]) -> tuple[str, ...]:
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


def _found(was: Submitted) -> int | None:
    jobs = commands.find_by_comment(was.mark)
    return jobs[-1].id if jobs else None


def _release(number: int) -> None:
    try:
        commands.cancel([number])
    except ControllerError:
        return  # its lease ends it
