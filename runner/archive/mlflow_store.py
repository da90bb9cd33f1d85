"""A campaign's runs in a local MLflow store: a folder with one SQLite file, no server.

MLflow's own file store (mlruns/) is in maintenance, and 3.17 refuses to open it.
"""

import logging
import os
import re
from pathlib import Path
from typing import Any

from runner.archive.tracked_runs import Runs, TrackedRun, as_text, missing_extra
from runner.base.errors import UserError

DATABASE = "mlflow.db"
_KEY = "trainbench.run"
_MOST = 1000  # metrics of one call; of parameters and tags it is 100
_MOST_LETTERS = 6000  # of a parameter; of a tag it is 8000
_STATUS = {"ok": "FINISHED", "interrupted": "KILLED"}


def write_mlflow(campaign: str, runs: Runs, folder: Path) -> int:
    """Add the runs to the store in `folder`, as an experiment of the campaign's name; runs that it
    has stay. Return how many were added. Contacts no network.

    Raises UserError where MLflow is not installed or refuses.
    """
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}
    try:
        import alembic  # noqa: F401  (of MLflow's database; mlflow-skinny comes without)
        import sqlalchemy  # noqa: F401
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ModuleNotFoundError as error:
        raise missing_extra(error, "mlflow") from None
    logging.getLogger("alembic").setLevel(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    address = f"sqlite:///{(folder / DATABASE).resolve()}"
    try:
        client = MlflowClient(tracking_uri=address, registry_uri=address)
        stored = client.get_experiment_by_name(campaign)
        artifacts = (folder / "artifacts").resolve().as_uri()
        experiment = (
            stored.experiment_id if stored else client.create_experiment(campaign, artifacts)
        )
        return sum(_add(client, experiment, run) for run in runs)
    except MlflowException as error:
        raise UserError(f"MLflow refuses {folder}: {error.message}") from None


def _add(client: Any, experiment: str, run: TrackedRun) -> bool:
    """Add a run unless it is there."""
    from mlflow.entities import Metric, Param

    if client.search_runs([experiment], f"tags.`{_KEY}` = '{run.key}'", max_results=1):
        return False
    began = round(run.began * 1000)
    tags = {**run.tags, "cell": run.cell}
    run_id = client.create_run(
        experiment,
        began,
        {name: text[:_MOST_LETTERS] for name, text in tags.items()},
        run_name=run.name,
    ).info.run_id
    params = [
        Param(_mlflow_name(name), as_text(value)[:_MOST_LETTERS])
        for name, value in run.settings.items()
    ]
    metrics = [Metric(_mlflow_name(name), value, began, 0) for name, value in run.figures.items()]
    metrics += [
        Metric(name, value, began, iteration)
        for iteration, values in run.points().items()
        for name, value in values.items()
    ]
    for at in range(0, len(params), 100):
        client.log_batch(run_id, params=params[at : at + 100])
    for at in range(0, len(metrics), _MOST):
        client.log_batch(run_id, metrics=metrics[at : at + _MOST])
    ended = round((run.began + run.wall_s) * 1000)
    client.set_tag(run_id, _KEY, run.key)  # at last: what broke off is written again
    client.set_terminated(run_id, _STATUS.get(run.status, "FAILED"), ended)
    return True


def _mlflow_name(name: str) -> str:
    """Return a name as MLflow takes it."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:250]
