"""`python -m runner parse`: one object, one table, one sentence where the input is bad."""

import json
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from runner.__main__ import main
from runner.commands.parse import parse
from runner.judge.diagnosis.causes import STATUSES
from runner.logs.kinds import readers_of
from runner.logs.latest import latest
from runner.logs.measure import measure
from tests.runner.logs.made_lines import libai, megatron

pytestmark = pytest.mark.made_log

KEYS = [
    *(
        "system",
        "status",
        "reason",
        "logged_lines",
        "counted_lines",
        "runs",
        "first_iteration",
        "last_iteration",
    ),
    *("step_time_ms", "samples_per_s", "skipped", "nan", "last_loss", "memory_mib"),
]
MEGATRON = partial(measure, readers_of("megatron_deepspeed"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train_0.log"
    path.write_text("".join(megatron(step, rate=1.1) + "\n" for step in (1, 2, 3)))
    return path


def test_json_is_one_object_with_every_key(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", str(log), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == KEYS
    assert result["status"] in STATUSES
    assert (result["logged_lines"], result["samples_per_s"]) == (3, 1.1)


def test_table_shows_the_same_and_the_reason(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", str(log), "--system", "megatron_deepspeed"]) == 0
    shown = capsys.readouterr().out
    assert all(key in shown for key in KEYS if key != "reason")
    assert "named by --system" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.log"], "nowhere.log cannot be read: No such file or directory"),
        (["."], ". is a folder; name the logs in it"),
        (["LOG", "--system", "megatron_deepsped"], "did you mean"),
        (["LOG", "--global-batch-size", "0"], "must be at least 1"),
        (["LOG", "--warmup-iters", "-1"], "must be at least 0"),
    ],
)
def test_bad_input_is_one_sentence_and_2(
    log: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["parse", *(str(log) if word == "LOG" else word for word in arguments)]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_a_log_may_come_through_a_pipe(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(log.read_bytes()))
    writer.start()
    assert main(["parse", str(pipe), "--format", "json"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["logged_lines"] == 3


def test_a_log_without_a_step_says_so_and_has_no_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text("loading\nerror: none\n")
    assert main(["parse", str(path), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["logged_lines"]) == ("no_step", 0)
    assert all(result[key] is None for key in KEYS[6:])


@pytest.mark.parametrize(
    ("last", "status"),
    [
        (megatron(3, loss=float("nan")), "diverged"),
        (megatron(3, loss=float("inf")), "diverged"),
        (megatron(3, loss=None), "diverged"),  # Megatron drops the field of a NaN (issue 396)
        (megatron(3, loss=None, skipped=1), "ok"),  # its gradients overflowed: no loss was lost
        (megatron(3, loss=float("nan")) + "\n" + megatron(4), "ok"),
    ],
)
def test_a_log_whose_last_loss_is_no_number_is_diverged(
    last: str, status: str, tmp_path: Path
) -> None:
    """It was ok, with a speed and the loss of an earlier line."""
    path = tmp_path / "log"
    path.write_text("\n".join((megatron(1), megatron(2), last)) + "\n")
    result = parse([path], None)
    assert result["status"] == status
    assert ("NaN or infinite at iteration 3" in result["reason"]) == (status != "ok")


def test_the_newest_step_is_found_from_the_end(tmp_path: Path) -> None:
    path, silent = tmp_path / "log", tmp_path / "silent"
    path.write_text(megatron(7) + "\n" + "noise\n" * 50_000)
    silent.write_text("noise\n" * 50_000)
    for logs in ({0: path}, {0: silent, 1: path, 2: silent}):
        now = latest(MEGATRON, logs)
        assert now is not None
        assert now.intervals[-1].iteration == 7
    path.write_text(libai(99, time=1.0) + "\n")
    found = latest(partial(measure, readers_of("libai")), {0: path})
    assert found is not None
    assert found.intervals[-1].iteration == 100
    assert latest(MEGATRON, {0: tmp_path / "none"}) is None


def test_help_imports_no_parser() -> None:
    """numpy alone takes longer than all else that the command line needs."""
    code = "import sys; from runner.__main__ import parser; parser(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
