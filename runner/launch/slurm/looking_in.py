"""Where the jobs of a campaign stand that no bench follows: asked once, for `status`."""

import time
from contextlib import suppress

from runner.base.errors import UserError
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.folder.stored import write_json
from runner.launch.slurm import commands, handover
from runner.launch.slurm.commands import SlurmError
from runner.launch.slurm.queue import queued_of


def look_in(campaign: Campaign) -> None:
    """Write where each job stands into its run's folder, as bench does while it follows them.

    Nothing where Slurm cannot be asked here, or the folder is somebody else's.
    """
    runs = {
        submitted.job_id: run
        for run in campaign.running()
        if run.queue_has_it and (submitted := handover.submitted(run)) and submitted.job_id
    }
    with suppress(SlurmError, UserError, OSError):
        for number, job in commands.jobs(runs).items():
            queued = queued_of(job, None, time.time())
            write_json(runs[number].path / names.QUEUE, queued.to_json())
