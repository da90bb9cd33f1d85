"""A campaign's runs in Weights & Biases' offline format: what `wandb sync FOLDER/wandb/*` sends."""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from runner.archive.tracked_runs import Runs, TrackedRun, missing_extra
from runner.base.errors import UserError

_MOST_LETTERS = 128  # of a project, a name or a group


def write_wandb(campaign: str, runs: Runs, folder: Path) -> int:
    """Add the runs to `folder`, as a project of the campaign's name; runs that it has stay. Return
    how many were added. Contacts no network, whatever the environment says.

    Raises UserError where the library is not installed or refuses.
    """
    os.environ |= {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise missing_extra(error, "wandb") from None
    project = re.sub(r"[/\\#?%:]", "-", campaign)[:_MOST_LETTERS]
    home = folder / "wandb"
    home.mkdir(parents=True, exist_ok=True)
    # The same run has the same id, so that sending it twice makes one.
    runs_by_id = {
        hashlib.sha256(f"{project}/{run.key}".encode()).hexdigest()[:16]: run for run in runs
    }
    fresh = {name: run for name, run in runs_by_id.items() if not any(home.glob(f"*-{name}"))}
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as temporary:
        try:
            for name, run in fresh.items():
                _write(wandb, project, name, run, temporary)
        except wandb.Error as error:
            raise UserError(f"wandb refuses {folder}: {error}") from None
        finally:
            wandb.teardown()
        for path in Path(temporary).glob("wandb/offline-run-*"):
            shutil.rmtree(path / "logs")  # the library's own, which name this machine's folders
            path.rename(home / path.name)
    return len(fresh)


def _write(wandb: Any, project: str, name: str, run: TrackedRun, folder: str) -> None:
    settings = wandb.Settings(
        mode="offline",
        silent=True,
        console="off",
        disable_git=True,
        disable_code=True,
        host="",
        username="",
        program="",
        x_disable_machine_info=True,  # it is this machine's, which ran nothing
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    logged_run = wandb.init(
        project=project,
        dir=folder,
        id=name,
        name=run.name[:_MOST_LETTERS],
        group=run.cell[:_MOST_LETTERS],
        job_type=str(run.settings["system"]),
        tags=[run.status],
        config={**run.settings, "trainbench": {"run": run.key, **run.tags}},
        settings=settings,
        reinit="create_new",
    )
    for iteration, values in run.points().items():
        logged_run.log(values, step=iteration)
    logged_run.summary.update(dict(run.figures))
    logged_run.finish(exit_code=0 if run.status == "ok" else 1)
