"""Mode `job`: a run is a job of its own, submitted once, and followed until it is over."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from node.causes import Cause
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.lock import HeldFolder
from runner.folder.placement import Submitted
from runner.folder.stored import write_script
from runner.launch.slurm import commands, handover
from runner.launch.slurm.answers import MARK
from runner.launch.slurm.commands import ControllerError, QueueFullError, SlurmError
from runner.launch.slurm.job_cleanup import LeavingJobs
from runner.launch.slurm.job_script import job_script
from runner.launch.slurm.program import leave
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.states import Ended
from runner.terms.engines.slurm import Slurm
from runner.terms.orders import Orders

AGAIN_S = 10.0  # between two tries to reach a controller
FULL_S = 5.0  # until the second try where the site's limit of jobs is reached; twice as long then
LONGEST_FULL_S = 60.0  # and so long at most; a job of ours that ends makes room at once
HALT_S = 0.5  # between two looks whether a job that waits is to end
LONGEST_RUNNING_S = 1.0  # between two looks whether a job that runs has ended
RUNNING = 0.02  # of the time that it was followed by then: each look asks the shared file system
LONGEST_LOOK_S = 5.0  # between two looks whether a job that waits has begun
PATIENCE = 0.05  # of the time that it has waited by then
UNBEGUN_S = 1.0  # for a job that is over to show that it had begun
REASON_S = 30.0  # for Slurm to say why a job ended
WAITING = ("PENDING", "REQUEUED", "CONFIGURING")
ENDING_S = 15.0  # for a run that is told to end, beyond what its processes have for that


def script_of(slurm: Slurm, campaign: Path, run: Path, orders: Orders, mark: str) -> str:
    """Write the job of a run; `campaign` and `run` are their folders."""
    return job_script(
        orders,
        slurm,
        output=PurePosixPath(run / names.SUBMIT_OUTPUT),
        comment=MARK + mark,
        command=handover.task(campaign, run, orders, {"mark": mark, "variables": slurm.variables}),
    )


@dataclass(frozen=True)
class Jobs:
    """Submits and follows the jobs of a campaign."""

    slurm: Slurm
    queue: Queue
    secrets: Mapping[str, str]
    handing: set[Path] = field(default_factory=set)  # runs that another thread hands over now
    leaving: LeavingJobs = field(default_factory=LeavingJobs)
    ended: list[int] = field(default_factory=list)  # jobs that are over

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's."""
        submitted = handover.submitted(run)
        if submitted is not None and submitted.job_id is None and handover.over(run):
            return handover.last_words(run)  # of a job whose number nobody wrote down
        if submitted is None or submitted.job_id is None:
            submitted = self.submit(folder, run, orders)
        if submitted is None:
            return "the job was not submitted"
        try:
            return Followed(self, run, orders, submitted).to_its_end(cancelled)
        finally:
            self.ended.append(submitted.job_id or 0)

    def submit(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> Submitted | None:
        """Hand a run to the queue; None where Slurm would not have it, which is its `halt`."""
        self.handing.add(run.path)
        try:
            return self._submit(folder, run, orders)
        finally:
            self.handing.discard(run.path)

    def _submit(self, folder: HeldFolder, run: RunFolder, orders: Orders) -> Submitted | None:
        submitted = handover.begun(run)
        script = run.path / names.SUBMIT_SCRIPT
        campaign = folder.path.resolve()
        leave(handover.TASK, campaign)
        text = script_of(self.slurm, campaign, run.path.resolve(), orders, submitted.mark)
        write_script(script, text)
        retried, full_s = False, FULL_S
        while run.halt is None:
            try:
                # One that was said to have failed may have come through.
                there = handover.found(submitted) if retried else None
                number = there or commands.submit(script, self.secrets)
                return handover.known(run, submitted, number)
            except ControllerError as error:
                retried = True
                handover.held_back(run, error)
                wait_s, ended = AGAIN_S, len(self.ended)
                if isinstance(error, QueueFullError):
                    wait_s, full_s = full_s, min(2 * full_s, LONGEST_FULL_S)
                until = time.monotonic() + wait_s
                while run.halt is None and time.monotonic() < until:
                    time.sleep(handover.POLL_S)
                    if len(self.ended) > ended:
                        full_s = FULL_S
                        break
            except SlurmError as error:
                run.ask_to_halt(Cause.LAUNCH_ERROR, str(error))
        return None

    def goes_on(self, run: RunFolder) -> bool:
        """Do as Engine's; a job whose id was not written down is looked for."""
        submitted = handover.submitted(run)
        if submitted is None:
            return False
        if submitted.job_id is None:
            number = None if run.path in self.handing else handover.found(submitted)
            if number is None:
                return handover.over(run)
            handover.known(run, submitted, number)
        return True


@dataclass
class Followed:
    """One job, until it is over."""

    jobs: Jobs
    run: RunFolder
    orders: Orders
    submitted: Submitted
    since: float = field(default_factory=time.monotonic)
    ending_since: float | None = None
    cancelled: bool = False
    had_nodes: bool = False

    @property
    def number(self) -> int:
        """The job's id."""
        assert self.submitted.job_id is not None  # Jobs.run follows none without
        return self.submitted.job_id

    def to_its_end(self, gone: Callable[[], bool]) -> str:
        """Follow the job until all nodes have said how they ended, or Slurm that it is over."""
        queue, run = self.jobs.queue, self.run
        with queue.watching(self.number, run.path / names.QUEUE):
            while not handover.over(run, time.monotonic() - self.since):
                if gone():
                    number = self.number
                    return f"job {number} was told to end; `scancel {number}` ends it at once"
                self.end_where_halted()
                if self.started_again():
                    return ""
                ended = queue.ended(self.number) or self.cancelled_in_vain()
                if ended is not None:
                    handover.await_records(run, handover.LATE_S if run.begun_at else UNBEGUN_S)
                    if not self.started_again():  # else it is the end of a later start
                        handover.settle(run, ended)
                    return handover.last_words(run)
                self.rest(gone)
            handover.show(run)
            if handover.needs_reason(run):
                self.settle()
            if run.halt is None or run.halt.cause != Cause.REQUEUED:  # else it goes on as the next
                self.jobs.leaving.add(self.number)
        return handover.last_words(run)

    def rest(self, gone: Callable[[], bool]) -> None:
        """Wait for the next look: the longer, the longer the job waits for nodes, as many may.

        It may wait for a former job of the same campaign to release its nodes.
        """
        self.jobs.leaving.look()
        if self.begun:
            followed_s = time.monotonic() - self.since
            time.sleep(min(max(handover.POLL_S, RUNNING * followed_s), LONGEST_RUNNING_S))
            return
        time.sleep(handover.POLL_S)
        now = time.monotonic()
        until = now + min((now - self.since) * PATIENCE, LONGEST_LOOK_S)
        while (left_s := until - time.monotonic()) > 0 and self.run.halt is None and not gone():
            time.sleep(min(left_s, HALT_S))

    def cancelled_in_vain(self) -> Ended | None:
        """Cancel a job that can never start, and return why."""
        never = self.jobs.queue.never_starts(self.number)
        if never is not None:
            with suppress(ControllerError):  # nobody follows it any more; `stop` cancels it
                commands.cancel([self.number])
        return never

    def settle(self) -> None:
        """Ask Slurm why the run was ended, which its nodes cannot know."""
        until = time.monotonic() + REASON_S
        self.jobs.queue.soon()
        while time.monotonic() < until and not self.started_again():
            ended = self.jobs.queue.ended(self.number)
            if ended is not None:
                handover.settle(self.run, ended)
                return
            time.sleep(handover.POLL_S)

    def end_where_halted(self) -> None:
        """Cancel a job whose run is to end: at once before it began, else where it does not."""
        if self.run.halt is None:
            return
        now = time.monotonic()
        if self.ending_since is None:
            self.ending_since = now
            waits = self.run.begun_at is None
        else:
            waits = now - self.ending_since > self.orders.limits.grace_s + ENDING_S
        if waits and not self.cancelled:
            try:
                commands.cancel([self.number])
                self.cancelled = True
            except SlurmError:  # it is tried again
                time.sleep(1.0)
            self.jobs.queue.soon()

    @property
    def begun(self) -> bool:
        """Whether the run had all of its nodes; once it had, nobody looks again."""
        self.had_nodes = self.had_nodes or self.run.begun_at is not None
        return self.had_nodes

    def started_again(self) -> bool:
        """Whether Slurm has put the job back into its queue, or started it again since.

        Then this attempt of it is over, and the next is made, where its nodes have not.
        """
        job = self.jobs.queue.look(self.number)
        waits = job is not None and job.state in WAITING and self.begun
        if not waits and not handover.began_again(self.run):
            return False
        try:
            record = commands.job(self.number)
        except ControllerError:
            return False
        # One that Slurm has forgotten meanwhile had started at least once more.
        restarts = record.restarts if record is not None else self.submitted.restart + 1
        if restarts <= self.submitted.restart:
            return False
        why = f" ({job.reason})" if job is not None and job.reason else ""
        handover.settle(self.run, Ended(Cause.REQUEUED, f"job {self.number} was requeued{why}"))
        handover.follows(self.run, restarts)
        return True
