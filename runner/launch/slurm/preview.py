"""What Slurm would be given for runs, with words for what only a submission knows: a dry run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.folder.campaign import Campaign
from runner.launch.engine import Wanted
from runner.launch.slurm import allocation, job
from runner.launch.slurm.step import step_of
from runner.terms.cluster import Cluster
from runner.terms.engines.slurm import Slurm
from runner.terms.run import Run

MARK, JOB_ID, HOSTS = "{mark}", "{job_id}", "{hosts}"


def preview(
    slurm: Slurm, cluster: Cluster, campaign: Campaign, runs: Sequence[Run], repeats: int
) -> Iterator[Mapping[str, Any]]:
    """Yield for each run its `script` for sbatch, and in mode `allocation` its `step` in that.

    Writes nothing, and asks nobody.
    """
    folder = campaign.path.resolve()
    cells = [run.cell for run in runs] * repeats
    wanted = Wanted(cells, max(run.limits.time_limit_s for run in runs))
    for run in runs:
        path = campaign.attempt_path(run.cell.id, run.repeat, run.attempt).resolve()
        if slurm.mode == "job":
            yield {"script": job.script_of(slurm, folder, path, run.orders, MARK)}
        else:
            step = step_of(slurm, cluster, folder, path, run.orders, MARK, JOB_ID, [HOSTS])
            script = allocation.script_of(slurm, allocation.span_of(wanted), folder, MARK)
            yield {"script": script, "step": list(step)}
