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
from runner.launch.slurm import commands, handover
from runner.launch.slurm.answers import MARK
from runner.launch.slurm.commands import ControllerError, SlurmError
from runner.launch.slurm.program import leave
from runner.launch.slurm.queue import Queue
from runner.launch.slurm.states import Ended
from runner.plan.slurm_job import job_script
from runner.terms.orders import Orders
from runner.terms.slurm import Slurm

AGAIN_S = 10.0  # between two tries to reach a controller
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
        command=handover.task(campaign, run, orders, {"mark": mark}),
    )


@dataclass(frozen=True)
class Jobs:
    """Submits and follows the jobs of a campaign."""

    slurm: Slurm
    queue: Queue
    secrets: Mapping[str, str]
    handing: set[Path] = field(default_factory=set)  # runs that another thread hands over now

    def run(
        self, folder: HeldFolder, run: RunFolder, orders: Orders, cancelled: Callable[[], bool]
    ) -> str:
        """Do as Engine's."""
        submitted = handover.submitted(run)
        if submitted is None or submitted.job_id is None:
            submitted = self.submit(folder, run, orders)
        if submitted is None:
            return "the job was not submitted"
        return Followed(self, run, orders, submitted).to_its_end(cancelled)

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
        script.write_text(text, encoding="utf-8")
        script.chmod(0o700)
        while True:
            try:
                number = self.found(submitted) or commands.submit(script, self.secrets)
                return handover.known(run, submitted, number)
            except ControllerError:
                if run.halt is not None:
                    return None
                time.sleep(AGAIN_S)
            except SlurmError as error:
                run.ask_to_halt(Cause.LAUNCH_ERROR, str(error))
                return None

    def found(self, submitted: Submitted) -> int | None:
        """Return the job that a run was handed over as, where only its comment says so."""
        jobs = commands.find_by_comment(submitted.mark)
        return jobs[-1].id if jobs else None

    def goes_on(self, run: RunFolder) -> bool:
        """Do as Engine's; a job whose id was not written down is looked for."""
        submitted = handover.submitted(run)
        if submitted is None:
            return False
        if submitted.job_id is None:
            number = None if run.path in self.handing else self.found(submitted)
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
    ending_since: float | None = None
    cancelled: bool = False

    @property
    def number(self) -> int:
        """The job's id."""
        assert self.submitted.job_id is not None  # Jobs.run follows none without
        return self.submitted.job_id

    def to_its_end(self, gone: Callable[[], bool]) -> str:
        """Follow the job until all nodes have said how they ended, or Slurm that it is over."""
        queue, run = self.jobs.queue, self.run
        with queue.watching(self.number, run.path / names.QUEUE):
            while not handover.over(run):
                if gone():
                    return f"job {self.number} was asked to end, and nobody waited for that"
                self.end_where_halted()
                ended = queue.ended(self.number) or self.cancelled_in_vain()
                if ended is not None:
                    handover.await_records(run, handover.LATE_S if run.placement else UNBEGUN_S)
                    handover.settle(run, ended)
                    return handover.last_words(run)
                if self.started_again():
                    return ""
                time.sleep(handover.POLL_S)
            if handover.needs_reason(run):
                self.settle()
        return handover.last_words(run)

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
        while time.monotonic() < until:
            ended = self.jobs.queue.ended(self.number)
            if ended is not None:
                handover.settle(self.run, ended)
                return
            if self.started_again():
                return
            time.sleep(handover.POLL_S)

    def end_where_halted(self) -> None:
        """Cancel a job whose run is to end: at once before it began, else where it does not."""
        if self.run.halt is None:
            return
        now = time.monotonic()
        if self.ending_since is None:
            self.ending_since = now
            waits = self.run.placement is None
        else:
            waits = now - self.ending_since > self.orders.limits.grace_s + ENDING_S
        if waits and not self.cancelled:
            try:
                commands.cancel([self.number])
                self.cancelled = True
            except SlurmError:  # it is tried again
                time.sleep(1.0)
            self.jobs.queue.soon()

    def started_again(self) -> bool:
        """Whether Slurm has put the job back into its queue: this attempt of it is over."""
        job = self.jobs.queue.look(self.number)
        placement = self.run.placement
        if job is None or placement is None or job.state not in WAITING:
            return False
        try:
            record = commands.job(self.number)
        except ControllerError:
            return False
        if record is None or record.restarts <= self.submitted.restart:
            return False
        words = f"job {self.number} was requeued ({job.reason})"
        handover.settle(self.run, Ended(Cause.REQUEUED, words))
        handover.follows(self.run, record.restarts)
        return True
