"""An engine is its settings, its class and one entry of a table: no other room knows of it.

here_engine.py is such an engine, entered into the table for these tests alone.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.base.errors import UserError
from runner.folder.attempt import Attempt
from runner.folder.campaign import find_campaign
from runner.inventory.inventory import load_inventory
from runner.terms.engines.engine_table import ENGINES

from .here_engine import PIDS, Here

HOSTS = """\
nodes:
  vars: {ansible_connection: local, cluster_root: ROOT, cluster_devices_per_node: 1, KEYS}
  hosts: {one: {}, two: {}}
"""
MATRIX = """\
name: m
warmup_iters: 0
defaults:
  system: command
  nodes: 2
  argv: [python3, -c, "import os, time\\nfor n in (1, 2, 3):
    print('step', n, 'of 3 | loss', os.nice(0), '| dt: 5.0ms', flush=True); time.sleep({pause})"]
  cwd: ROOT
  parameters: {pause: 0}
  log: {step: 'step (\\d+) of (\\d+)', loss: 'loss (\\S+)',
    step_time: {pattern: 'dt: ([\\d.]+)ms', unit: ms}}
  samples_per_step: 8
"""

Command = Callable[..., int]


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two nodes, which are this machine."""
    monkeypatch.setitem(ENGINES, "here", Here)
    path = tmp_path / "rack"
    keys = "cluster_engine: here, here_nice: 3"
    path.write_text(HOSTS.replace("ROOT", str(tmp_path)).replace("KEYS", keys))
    return path


@pytest.fixture
def command(tmp_path: Path, inventory: Path) -> Command:
    """A command on them, and on a matrix of one cell, or of as many as there are pauses."""

    def run(name: str, *words: str, axes: str = "pause: [0, 0.01]", step: str = "step") -> int:
        matrix = tmp_path / "m.yaml"
        text = MATRIX.replace("ROOT", str(tmp_path)).replace("{step: 'step ", f"{{step: '{step} ")
        matrix.write_text(f"{text}axes: {{{axes}}}\n")
        where = {
            "bench": ["--matrix", str(matrix), "-i", str(inventory)],
            "doctor": ["-i", str(inventory)],
        }
        return main([name, *where.get(name, []), "--runs", str(tmp_path / "runs"), *words])

    return run


def runs(tmp_path: Path) -> list[Attempt]:
    campaign = find_campaign(tmp_path / "runs", None)
    return [campaign.attempts(cell.id, repeat)[-1] for cell, repeat in campaign.settings.asked()]


def test_bench_and_status(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("bench") == 0
    found = runs(tmp_path)
    assert [run.outcome.status for run in found if run.outcome] == ["ok", "ok"]
    nice = min(os.nice(0) + 3, 19)  # the lowest priority is 19
    assert all(f"loss {nice} " in run.log(rank).read_text() for run in found for rank in (0, 1))
    capsys.readouterr()
    assert command("status") == 0
    assert "2 of 2 runs ended" in capsys.readouterr().out


def test_corrected_patterns_read_what_ran_and_run_nothing_again(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("bench", step="stop") == 1
    wrong = runs(tmp_path)
    assert [run.outcome.status for run in wrong if run.outcome] == ["no_steps", "no_steps"]
    capsys.readouterr()
    assert command("bench") == 0
    assert "2 ok, 0 not ok" in capsys.readouterr().err
    found = runs(tmp_path)
    assert [(run.path, run.number) for run in found] == [(run.path, 1) for run in wrong]
    assert [run.outcome.status for run in found if run.outcome] == ["ok", "ok"]
    assert command("collect", "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["status"], row["figures"]["steps_measured"]) for row in rows] == [
        ("ok", 3),
        ("ok", 3),
    ]


def test_dry_run_shows_what_it_is_given(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("bench", "--dry-run") == 0
    assert "nice -n 3 python3 -c" in capsys.readouterr().out
    assert command("bench", "--dry-run", "--format", "json") == 0
    first, _ = json.loads(capsys.readouterr().out)
    assert first["here"]["script"].startswith("nice -n 3 python3")


def test_doctor(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("doctor", "--only", "env") == 0
    assert "2 nodes compared: no difference" in capsys.readouterr().out


def test_stop_ends_what_a_bench_runs(
    command: Command, inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fork = multiprocessing.get_context("fork")
    bench = fork.Process(target=command, args=("bench",), kwargs={"axes": "pause: [60]"})
    bench.start()
    until = time.monotonic() + 60
    while not list((tmp_path / "runs").rglob(PIDS)) and time.monotonic() < until:
        time.sleep(0.05)
    assert main(["stop", "-i", str(inventory), "--runs", str(tmp_path / "runs")]) == 0
    assert "attempt1 was ended" in capsys.readouterr().out
    bench.join(60)
    (run,) = runs(tmp_path)
    assert run.outcome is not None
    assert run.outcome.cause == "stopped"


def test_its_key_is_checked_and_makes_another_campaign(inventory: Path) -> None:
    three = load_inventory(inventory)
    text = inventory.read_text()
    inventory.write_text(text.replace("here_nice: 3", "here_nice: 4"))
    assert load_inventory(inventory).digest != three.digest
    for wrong, says in (("here_nice: 40", "must be 0 to 19"), ("here_nise: 4", "unknown key")):
        inventory.write_text(text.replace("here_nice: 3", wrong))
        with pytest.raises(UserError, match=says):
            load_inventory(inventory)
    inventory.write_text(text.replace("cluster_engine: here, ", ""))
    with pytest.raises(UserError, match="here_nice is set, and cluster_engine is ssh; set clus"):
        load_inventory(inventory)


def test_a_cell_cannot_ask_it_for_what_it_does_not_take(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("bench", "--dry-run", axes="partition: [gpu]") == 2
    assert "partition is a word for a scheduler" in capsys.readouterr().err
