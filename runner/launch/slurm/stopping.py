"""End what Slurm still has of campaigns: the counterpart of playbooks/stop.yml.

Jobs are cancelled by id, and only those whose comment has the mark that a campaign wrote down: an
id alone may be another cluster's. Runs that go on are told to end first, so that their logs and
endings come home.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from node.causes import Cause
from runner.folder import names
from runner.folder.attempt import RunFolder
from runner.folder.campaign import Campaign
from runner.folder.placement import Submitted
from runner.folder.stored import UnreadableError
from runner.launch.slurm import commands
from runner.launch.slurm.answers import QueuedJob
from runner.launch.slurm.states import ENDS, WAITING

PATIENCE_S = 30.0  # with runs that were told to end, as playbooks/stop.yml has it
LOOK_S = 0.5


@dataclass(frozen=True)
class Handed:
    """What was handed to Slurm and has not ended, as far as its folder says."""

    run: RunFolder
    submitted: Submitted
    name: str


@dataclass(frozen=True)
class Live:
    """What of it Slurm has: a job of the campaign's own, or a step in the user's."""

    handed: Handed
    job: QueuedJob
    own: bool

    @property
    def waits(self) -> bool:
        """Whether the job has no nodes yet."""
        return self.job.state in WAITING

    @property
    def goes_on(self) -> bool:
        """Whether processes of a run may still be there."""
        holds = self.handed.run.path.name == names.ALLOCATION  # which runs nothing itself
        return not self.waits and not holds and not self.handed.run.over

    def line(self) -> str:
        """Say what became of it."""
        title = f"{self.handed.name}: job {self.job.id}"
        if not self.own:
            return f"{title} is not this campaign's; its step there was told to end"
        if self.waits:
            return f"{title} was cancelled; it had not begun"
        late = f"; it had not ended after {PATIENCE_S:.0f} s" if self.goes_on else ""
        return f"{title} was cancelled{late}" if late else f"{title} was ended"


def stop(campaigns: Sequence[Campaign], cancelled: Callable[[], bool]) -> list[str]:
    """End the jobs of campaigns; a line for each. `cancelled`: nobody waits for runs to end."""
    live = _live([submitted_run for campaign in campaigns for submitted_run in _handed(campaign)])
    for live_job in live:
        live_job.handed.run.ask_to_halt(Cause.STOPPED, "ended by `python -m runner stop`")
    commands.cancel(live_job.job.id for live_job in live if live_job.own and live_job.waits)
    until = time.monotonic() + PATIENCE_S
    while (
        any(live_job.goes_on for live_job in live) and not cancelled() and time.monotonic() < until
    ):
        time.sleep(LOOK_S)
    commands.cancel(live_job.job.id for live_job in live if live_job.own and not live_job.waits)
    return [live_job.line() for live_job in live]


def has_jobs(campaign: Campaign) -> bool:
    """Return whether a campaign ever handed anything to Slurm."""
    places = (f"{names.ATTEMPTS}/{names.SUBMITTED}", f"{names.ALLOCATION}/{names.SUBMITTED}")
    return any(any(campaign.path.glob(pattern)) for pattern in places)


def _live(handed: Sequence[Handed]) -> list[Live]:
    """Return those of which Slurm has a job that has not ended."""
    if not handed:
        return []
    marks = {submitted_run.submitted.mark for submitted_run in handed}
    ours = {mark: job for mark, job in commands.ours().items() if mark in marks}
    own_jobs = {job.id for job in ours.values()}
    jobs = commands.jobs(
        submitted_run.submitted.job_id for submitted_run in handed if submitted_run.submitted.job_id
    )
    live = []
    for submitted_run in handed:
        job = ours.get(submitted_run.submitted.mark) or jobs.get(
            submitted_run.submitted.job_id or 0
        )
        if job is not None and job.state not in ENDS:
            live.append(Live(submitted_run, job, job.id in own_jobs))
    return live


def _handed(campaign: Campaign) -> Iterator[Handed]:
    """Yield what a campaign handed over: runs, then the allocation that they may be steps of."""
    for file in sorted(campaign.path.glob(f"{names.ATTEMPTS}/{names.SUBMITTED}")):
        if not (file.parent / names.OUTCOME).exists():
            yield from _read(file.parent, file.parent.relative_to(campaign.path.parent).as_posix())
    yield from _read(campaign.path / names.ALLOCATION, f"{campaign.name}: its allocation")


def _read(folder: Path, name: str) -> Iterator[Handed]:
    run = RunFolder(folder)
    try:
        submitted = run.submitted
    except UnreadableError:  # nobody knows its mark
        return
    if submitted is not None and not run.over:
        yield Handed(run, submitted, name)
