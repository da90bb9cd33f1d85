"""Runs in MLflow's store and in Weights & Biases' offline format, read by those libraries."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.archive import mlflow_store
from runner.folder.campaign import Campaign
from tests.runner.archive.test_export import HOSTS, MATRIX, SAID, campaign
from tests.runner.campaigns import torch_gpt

__all__ = ["campaign"]
SECRET = "hf_abcdef"  # the value of HF_TOKEN in MATRIX; the logs repeat it
IDS = [cell.id for cell in MATRIX.cells]


def export(campaign: Campaign, to: str, folder: Path, *more: str) -> int:
    words = ["export", campaign.name, "--runs", str(campaign.path.parent)]
    return main([*words, "--to", to, "-o", str(folder), *more])


def content(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def losses() -> list[tuple[int, float]]:
    lines = re.findall(r"step=(\d+)/.* loss=([\d.]+)", torch_gpt(50))
    return [(int(step), float(loss)) for step, loss in lines]


def test_mlflow_has_the_runs(campaign: Campaign, tmp_path: Path, capsys: Any) -> None:
    from mlflow import MlflowClient

    store = tmp_path / "store"
    assert export(campaign, "mlflow", store) == 0
    assert export(campaign, "mlflow", store) == 0
    said = capsys.readouterr().err
    assert f"wrote 2 runs into {store}\n" in said
    assert "wrote 0 runs" in said
    assert "2 were there" in said
    client = MlflowClient(f"sqlite:///{store}/{mlflow_store.DATABASE}")
    found = client.get_experiment_by_name(campaign.name)
    assert found is not None
    good, bad = sorted(client.search_runs([found.experiment_id]), key=lambda r: r.info.run_name)
    assert (good.info.status, bad.info.status) == ("FINISHED", "FAILED")
    assert good.info.run_name == "zero_stage=0"
    assert good.data.params["axis.zero_stage"] == "0"
    assert good.data.params["system"] == "torch_gpt"
    assert good.data.params["micro_batch_size"] == "4"
    assert good.data.metrics["run/samples_per_s"] == pytest.approx(100, rel=0.01)
    assert good.data.metrics["cell/memory_used_mib"] == 1000
    assert good.data.tags["verdict"] == "few_repeats"
    assert bad.data.tags["reason"].startswith("gpu: exit code 1: memory ran out")
    assert good.info.end_time - good.info.start_time == 60_000
    curve = client.get_metric_history(good.info.run_id, "loss")
    assert [(point.step, point.value) for point in curve] == losses()
    assert SECRET.encode() not in content(store)


def test_the_evidences_checksum_is_that_of_sha256sum(campaign: Campaign, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    assert export(campaign, "mlflow", tmp_path / "store") == 0
    client = MlflowClient(f"sqlite:///{tmp_path}/store/{mlflow_store.DATABASE}")
    (run,) = client.search_runs(["1"], "attributes.run_name = 'zero_stage=0'")
    copy = tmp_path / "copy"
    shutil.copytree(campaign.attempt_path(IDS[0], 1, 1), copy)
    line = "find . -type f | sed 's,^./,,' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    sums = subprocess.run(["bash", "-c", line], cwd=copy, check=True, capture_output=True)
    assert run.data.tags["evidence_sha256"] == sums.stdout.decode().split()[0]
    (copy / "run.json").write_text("{}")
    assert subprocess.run(["bash", "-c", line], cwd=copy, capture_output=True).stdout != sums.stdout


def records(path: Path) -> Iterator[Any]:
    """Read a .wandb file: a LevelDB log, in blocks of 32 KiB, of the library's messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    stream, at, part = path.read_bytes(), 7, b""
    while at + 7 <= len(stream):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack("<HB", stream[at + 4 : at + 7])
        part += stream[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(part)
            part = b""
            yield record


def wandb_runs(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in folder.glob("wandb/offline-run-*/run-*.wandb"):
        run: Any = None
        history: list[Any] = []
        summary: dict[str, Any] = {}
        code = None
        for record in records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run = record.run
            elif kind == "history":
                items = record.history.item
                history.append({i.key or i.nested_key[0]: json.loads(i.value_json) for i in items})
            elif kind == "summary":
                items = record.summary.update
                summary |= {i.key or i.nested_key[0]: json.loads(i.value_json) for i in items}
            elif kind == "exit":
                code = record.exit.exit_code
        assert run is not None
        config = {i.key: json.loads(i.value_json) for i in run.config.update}
        found[run.display_name] = {
            "run": run, "history": history, "summary": summary, "config": config, "code": code
        }  # fmt: skip
    return found


def test_wandb_has_the_runs(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    folder = tmp_path / "store"
    assert export(campaign, "wandb", folder) == 0
    runs = wandb_runs(folder)
    good, bad = runs["zero_stage=0"], runs["zero_stage=1"]
    assert good["run"].project == campaign.name
    assert (good["code"], bad["code"]) == (0, 1)
    assert good["config"]["axis.zero_stage"] == 0
    assert good["config"]["trainbench"]["verdict"] == "few_repeats"
    assert bad["config"]["trainbench"]["reason"].startswith("gpu: exit code 1")
    assert good["summary"]["run/samples_per_s"] == pytest.approx(100, rel=0.01)
    assert good["summary"]["cell/memory_used_mib"] == 1000
    assert [(row["_step"], row["loss"]) for row in good["history"]] == losses()
    assert SECRET.encode() not in content(folder)
    assert os.uname().nodename.encode() not in content(folder / "wandb") or len(os.uname()[1]) < 4
    assert sorted(path.name for path in folder.iterdir()) == ["wandb"]
    capsys.readouterr()
    assert export(campaign, "wandb", folder) == 0
    assert "wrote 0 runs" in capsys.readouterr().err
    assert len(wandb_runs(folder)) == 2


@pytest.mark.parametrize("to", ["mlflow", "wandb"])
def test_redacted_no_name_is_left(campaign: Campaign, tmp_path: Path, to: str) -> None:
    assert HOSTS[0] in SAID
    assert export(campaign, to, tmp_path / "store", "--redact") == 0
    found = content(tmp_path / "store")
    assert b"node1" in found
    for word in (HOSTS[0], SECRET, "alice", "10.20.30.41"):
        assert word.encode() not in found


COUNT = """
import pathlib, socket, sys
from runner.__main__ import main
def refused():
    rows = pathlib.Path("/proc/self/net/snmp").read_text().splitlines()
    names, values = (row.split() for row in rows if row.startswith("Ip:"))
    six = dict(l.split() for l in pathlib.Path("/proc/self/net/snmp6").read_text().splitlines())
    return int(dict(zip(names, values))["OutNoRoutes"]) + int(six.get("Ip6OutNoRoutes", 0))
code = main(sys.argv[1:])
before = refused()
try: socket.create_connection(("192.0.2.1", 80))
except OSError: pass
print(code, before, refused() > before)
"""


@pytest.mark.parametrize("to", ["mlflow", "wandb"])
def test_no_address_is_tried(campaign: Campaign, tmp_path: Path, to: str) -> None:
    """In a network namespace without a route the kernel counts what finds none."""
    unshare = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs network namespaces: `unshare --map-root-user --net` is not permitted")
    words = ["export", campaign.name, "--runs", str(campaign.path.parent), "--to", to]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", COUNT, *words, "-o", str(tmp_path / "store")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "0", "True"], done.stderr


@pytest.mark.parametrize(("to", "package"), [("mlflow", "sqlalchemy"), ("wandb", "wandb")])
def test_a_missing_library_is_one_sentence(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any,
    to: str, package: str,
) -> None:  # fmt: skip
    for name in [*sys.modules]:
        if name.split(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert export(campaign, to, tmp_path / "store") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith(f"is not installed: pip install 'trainbench-cluster[{to}]'\n")
    assert not (tmp_path / "store").exists()
