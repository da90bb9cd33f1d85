"""The scripts of examples/, with the real libraries in an environment of their own."""

import json
import subprocess
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.folder.campaign import Campaign
from tests.conftest import ROOT
from tests.runner.archive.test_export import campaign

__all__ = ["campaign"]
pytestmark = [pytest.mark.nightly("examples", by_day="245 MB"), pytest.mark.network]

MLFLOW = """
import json, mlflow
client = mlflow.MlflowClient()
found = client.search_runs([e.experiment_id for e in client.search_experiments()])
print(json.dumps({run.info.run_name: [
    run.info.status, run.data.params["zero_stage"], run.data.tags["reason"], run.data.metrics,
    [[p.step, p.value] for p in client.get_metric_history(run.info.run_id, "loss")],
] for run in found}))
"""
WANDB = """
import json, struct
from pathlib import Path
from wandb.proto.wandb_internal_pb2 import Record

def records(stream):  # a LevelDB log: blocks of 32 KiB, parts of messages with a head of 7 bytes
    at, message = 7, b""
    while at + 7 <= len(stream):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", stream[at + 4 : at + 7])
        message += stream[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield Record.FromString(message)
            message = b""

runs = {}
for path in Path().glob("wandb/offline-run-*/*.wandb"):
    name, code, found, losses = "", None, {}, []
    for record in records(path.read_bytes()):
        kind, history = record.WhichOneof("record_type"), record.history.item
        values = [*history, *record.summary.update, *record.run.config.update]
        values = {i.key or i.nested_key[0]: json.loads(i.value_json) for i in values}
        found |= values
        losses += [[values["_step"], values["loss"]]] if history and "loss" in values else []
        name = record.run.display_name if kind == "run" else name
        code = record.exit.exit_code if kind == "exit" else code
    runs[name] = [code, str(found["zero_stage"]), found["reason"], found, losses]
print(json.dumps(runs))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the extra `examples`, as pyproject.toml names it."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["examples"]
    python = str(home / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", *extra]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip does not install the extra examples: {done.stderr[-300:]}")
    return python


@pytest.mark.parametrize(
    ("script", "reader", "ends"),
    [
        ("mlflow_import.py", MLFLOW, ("FINISHED", "FAILED")),
        ("wandb_import.py", WANDB, (0, 1)),
    ],
)
def test_the_libraries_have_the_runs(
    campaign: Campaign, tmp_path: Path, python: str, script: str, reader: str, ends: Any
) -> None:
    table = tmp_path / "campaign.json"
    words = ["--campaign", str(campaign.path), "--format", "json", "--output", str(table)]
    assert main(["collect", *words]) == 0
    rows = {row["cell"]: row for row in json.loads(table.read_text(encoding="utf-8"))["rows"]}
    assert len(rows) == 3  # one ended well, one failed, one has not run

    def run(*words: str) -> str:
        done = subprocess.run(
            [python, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(str(ROOT / "examples" / script), str(table))
    found = json.loads(run("-c", reader))
    assert sorted(found) == ["zero_stage=0 repeat 1", "zero_stage=1 repeat 1"]
    for stage, end in enumerate(ends):
        row = rows[f"zero_stage={stage}"]
        (ran,) = row["runs"]
        code, setting, reason, figures, losses = found[f"zero_stage={stage} repeat 1"]
        assert (code, setting, reason) == (end, str(stage), ran["reason"])
        assert figures.get("samples_per_s") == ran["samples_per_s"]
        assert figures.get("cell/memory_used_mib") == row["figures"]["memory_used_mib"]
        assert losses == ran["curves"]["loss"]
