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
        what = f"{self.handed.name}: job {self.job.id}"
        if not self.own:
            return f"{what} is not this campaign's; its step there was told to end"
        if self.waits:
            return f"{what} was cancelled; it had not begun"
        late = f"; it had not ended after {PATIENCE_S:.0f} s" if self.goes_on else ""
        return f"{what} was cancelled{late}" if late else f"{what} was ended"


def stop(campaigns: Sequence[Campaign], cancelled: Callable[[], bool]) -> list[str]:
    """End the jobs of campaigns; a line for each. `cancelled`: nobody waits for runs to end."""
    live = _live([each for campaign in campaigns for each in _handed(campaign)])
    for each in live:
        each.handed.run.ask_to_halt(Cause.STOPPED, "ended by `python -m runner stop`")
    commands.cancel(each.job.id for each in live if each.own and each.waits)
    until = time.monotonic() + PATIENCE_S
    while any(each.goes_on for each in live) and not cancelled() and time.monotonic() < until:
        time.sleep(LOOK_S)
    commands.cancel(each.job.id for each in live if each.own and not each.waits)
    return [each.line() for each in live]


def has_jobs(campaign: Campaign) -> bool:
    """Return whether a campaign ever handed anything to Slurm."""
    places = (f"{names.ATTEMPTS}/{names.SUBMITTED}", f"{names.ALLOCATION}/{names.SUBMITTED}")
    return any(any(campaign.path.glob(place)) for place in places)


def _live(handed: Sequence[Handed]) -> list[Live]:
    """Return those of which Slurm has a job that has not ended."""
    if not handed:
        return []
    marks = {each.submitted.mark for each in handed}
    ours = {mark: job for mark, job in commands.ours().items() if mark in marks}
    own = {job.id for job in ours.values()}
    jobs = commands.jobs(each.submitted.job_id for each in handed if each.submitted.job_id)
    live = []
    for each in handed:
        job = ours.get(each.submitted.mark) or jobs.get(each.submitted.job_id or 0)
        if job is not None and job.state not in ENDS:
            live.append(Live(each, job, job.id in own))
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
