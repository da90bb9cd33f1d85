"""A bundle in a stranger's hands: what is executed is what was recorded, once somebody said yes.

The trainer is the stand-in, which prints its argv; Ansible, supervisor and archives are real.
"""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.base.paths import PROJECT
from tests.golden.places import stood_in
from tests.on_nodes.campaign import Bench

MATRIX: dict[str, Any] = {
    "name": "shown",
    "defaults": {
        "system": "torch_gpt",
        "model": "gpt2-tiny",
        "train_iters": 12,
        "env": {"ACT": "show", "VALUE": 'it\'s $HOME, "two"  spaces'},
    },
    "axes": {"zero_stage": [0, 1]},
    "warmup_iters": 2,
    "time_limit_s": 60,
}


def command(*words: str, folder: Path, stdin: int = subprocess.DEVNULL) -> Any:
    """A command as a stranger gives it: in another folder, with no lock or cache of ours."""
    env = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "200",
    }
    argv = [sys.executable, "-m", "runner", *words]
    return subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, stdin=stdin, timeout=120
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, stand_in_root: Path) -> Path:
    """What somebody published: two cells that ran."""
    folder = tmp_path_factory.mktemp("theirs")
    bench = Bench(folder, stood_in(folder / "here", stand_in_root), MATRIX)
    assert bench.run().returncode == 0
    target = folder / "shown.tar.gz"
    made = command("publish", str(bench.campaign), "--anyway", "-o", str(target), folder=folder)
    assert made.returncode == 0, made.stderr
    shutil.move(bench.runs, folder / "gone")  # nothing of the recorded campaign helps
    return target


def said(runs: Path, what: str) -> list[str]:
    """The lines of the trainer that begin so, of the one run there is."""
    (log,) = runs.glob("rerun-shown-here/*/repeat1/attempt1/nodes/*/launcher.log")
    return [line for line in log.read_text().splitlines() if line.startswith(what)]


def recorded(bundle: Path, stage: int) -> tuple[dict[str, Any], list[str]]:
    (home,) = (bundle.parent / "gone" / "shown-here").glob(f"zero_stage={stage}-*/repeat1/attempt1")
    log = next(home.glob("nodes/*/launcher.log")).read_text().splitlines()
    run: dict[str, Any] = json.loads((home / "run.json").read_text())
    return run, [line for line in log if line.startswith(("ARGV", "VALUE"))]


def rerun_json(runs: Path) -> dict[str, Any]:
    (path,) = runs.glob("rerun-shown-here/*/repeat1/attempt1/run.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_strangers_rerun_executes_what_was_recorded_byte_for_byte(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=1", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    run, lines = recorded(bundle, 1)
    now = rerun_json(tmp_path / "runs")
    assert now["nodes"][0]["argv"] == run["nodes"][0]["argv"]
    assert now["nodes"][0]["env"] == run["nodes"][0]["env"]
    assert [*said(tmp_path / "runs", "ARGV"), *said(tmp_path / "runs", "VALUE")] == lines
    count = len(run["nodes"][0]["argv"])
    assert f"argv: {count} of {count} words byte for byte as recorded" in ended.stdout
    assert now["nodes"][0]["dir"] != run["nodes"][0]["dir"]
    assert f"the run's name: {run['run_id']}" in ended.stdout
    assert now["rerun_of"] == run["run_id"]


def test_on_a_machine_with_another_root_only_that_is_another(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    root = tmp_path / "their-root"
    shutil.copytree(stand_in_root, root, symlinks=True)
    mine = stood_in(tmp_path / "mine", root, cluster_env={"MY_OWN": "1"})
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    run, lines = recorded(bundle, 0)
    back = [
        word.replace(str(root), str(stand_in_root))
        for word in rerun_json(tmp_path / "runs")["nodes"][0]["argv"]
    ]
    assert back == run["nodes"][0]["argv"]
    assert said(tmp_path / "runs", "ARGV")[0].replace(str(root), str(stand_in_root)) == lines[0]
    assert f"cluster_root: {stand_in_root} was, {root} is" in ended.stdout
    assert "the variable MY_OWN, of your inventory: not set was, 1 is" in ended.stdout


def test_other_installations_are_refused_as_ever(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    root = tmp_path / "other"
    shutil.copytree(stand_in_root, root, symlinks=True)
    (installed,) = root.glob("systems/*/*/installed.json")
    installed.write_text('{"schema": 1, "identity": {"stand-in": "2"}}')
    mine = stood_in(tmp_path / "mine", root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), "--yes", folder=tmp_path)
    assert ended.returncode == 2
    assert "(stand-in was 1, is 2)" in ended.stderr
    assert not list((tmp_path / "runs").glob("rerun-*"))


def test_nothing_is_executed_where_nobody_is_asked(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ended = command(*words, "--runs", str(tmp_path / "runs"), folder=tmp_path)
    assert ended.returncode == 2
    assert "env  ACT=show" in ended.stdout
    assert "nobody is there to be asked" in ended.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("", 2), ("yes please", 2), ("y", 0)])
def test_it_asks_and_only_yes_is_yes(
    bundle: Path, tmp_path: Path, stand_in_root: Path, answer: str, code: int
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    words = ["rerun", str(bundle), "--cell", "zero_stage=0", "-i", str(mine)]
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    ended = command(*words, "--runs", str(tmp_path / "runs"), folder=tmp_path, stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert "Execute this on this node? [y/N]" in ended.stdout
    assert ended.returncode == code, ended.stderr
    assert bool(list((tmp_path / "runs").glob("rerun-*/*/*"))) == (code == 0)


@pytest.mark.parametrize(
    ("words", "said_of_it"),
    [
        ([], "it has several cells; name one with --cell: zero_stage=0, zero_stage=1"),
        (["--cell", "x"], "there is no cell 'x'"),
        (["--cell", "zero_stage=0", "--repeat", "7"], "no run of zero_stage=0 was recorded"),
    ],
)
def test_which_cell_is_to_be_said(
    bundle: Path, tmp_path: Path, stand_in_root: Path, words: list[str], said_of_it: str
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    ended = command("rerun", str(bundle), "-i", str(mine), *words, folder=tmp_path)
    assert ended.returncode == 2
    assert said_of_it in ended.stderr


def test_a_bundle_needs_an_inventory_and_its_parts_are_not_run_without_a_question(
    bundle: Path, tmp_path: Path
) -> None:
    ended = command("rerun", str(bundle), "--cell", "zero_stage=0", folder=tmp_path)
    assert ended.returncode == 2
    assert "-i INVENTORY" in ended.stderr
    shutil.unpack_archive(bundle, tmp_path / "unpacked", filter="data")
    (run,) = (tmp_path / "unpacked").glob("shown-here/zero_stage=0-*/repeat1/attempt1")
    ended = command("rerun", str(run), folder=tmp_path)
    assert ended.returncode == 2
    assert "is of a bundle; name " in ended.stderr


def test_one_that_was_changed_on_the_way_is_refused(bundle: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "x.tar.gz"
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    ended = command("rerun", str(damaged), "--cell", "zero_stage=0", "-i", "x", folder=tmp_path)
    assert ended.returncode == 2
    assert "is not a whole export" in ended.stderr
