"""Log a campaign's ended runs to MLflow: python examples/mlflow_import.py CAMPAIGN.json.

`trainbench collect --format json` writes CAMPAIGN.json. MLFLOW_TRACKING_URI names the server or the
store; MLflow's default is the file mlflow.db in the current folder.
"""

import json
import sys
from pathlib import Path

import mlflow
from mlflow.entities import Metric

campaign = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
mlflow.set_experiment(campaign["campaign"])
for row in campaign["rows"]:
    for run in row["runs"]:
        if run["status"] in ("pending", "queued", "running"):
            continue
        settings = {"system": row["system"], **row["parameters"]}
        figures = {**{f"cell/{name}": value for name, value in row["figures"].items()}, **run}
        curves = [(name, *point) for name, curve in run["curves"].items() for point in curve]
        points = [Metric(name, value, 0, int(iteration)) for name, iteration, value in curves]
        logged = mlflow.start_run(run_name=f"{row['cell']} repeat {run['repeat']}")
        mlflow.log_params({name: v for name, v in settings.items() if v is not None})
        mlflow.set_tags({key: run[key] for key in ("status", "reason")})
        mlflow.set_tags({key: row[key] for key in ("cell", "verdict")})
        mlflow.log_metrics({k: v for k, v in figures.items() if type(v) in (int, float)})
        mlflow.MlflowClient().log_batch(logged.info.run_id, points)
        mlflow.end_run("FINISHED" if run["status"] == "ok" else "FAILED")
