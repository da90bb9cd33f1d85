"""Log a campaign's ended runs to Weights & Biases: python examples/wandb_import.py CAMPAIGN.json.

`trainbench collect --format json` writes CAMPAIGN.json. The runs are written to the folder wandb/
without a network; `wandb sync wandb/offline-run-*` sends them.
"""

import json
import sys
from pathlib import Path

import wandb

campaign = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for row in campaign["rows"]:
    for run in row["runs"]:
        if run["status"] in ("pending", "queued", "running"):
            continue
        points: dict[int, dict[str, float]] = {}
        for name, curve in run["curves"].items():
            for iteration, value in curve:
                points.setdefault(int(iteration), {})[name] = value
        figures = {**{f"cell/{k}": v for k, v in row["figures"].items()}, **run}
        logged = wandb.init(
            mode="offline",
            project=campaign["campaign"],
            group=row["cell"][:128],
            name=f"{row['cell']} repeat {run['repeat']}"[:128],
            config={"system": row["system"], **row["parameters"], "verdict": row["verdict"]},
        )
        for iteration, values in sorted(points.items()):
            logged.log(values, step=iteration)
        logged.summary.update({k: v for k, v in figures.items() if type(v) in (int, float)})
        logged.summary.update({key: run[key] for key in ("status", "reason")})
        logged.finish(exit_code=0 if run["status"] == "ok" else 1)
