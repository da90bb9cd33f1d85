"""`python -m runner parse`: one object, one table, one sentence where the input is bad."""

import json
import os
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from runner.__main__ import main
from runner.commands.parse import parse
from runner.figures.run_mean import run_mean
from runner.logs.kinds import readers_of
from runner.logs.latest import latest
from runner.logs.measure import measure
from runner.results.diagnosis.causes import STATUSES
from runner.terms.memory import MEMORY
from tests.runner.logs.made_lines import libai, megatron

pytestmark = pytest.mark.made_log


KEYS = [
    *("system", "family", "status", "reason"),
    *("logged_lines", "counted_lines", "runs", "first_iteration", "last_iteration"),
    "planned_iterations",
    *("step_time_ms", "step_time_ms_median"),
    *("samples_per_s", "samples_per_s_steps_ci_low", "samples_per_s_steps_ci_high"),
    *("samples_per_s_median", "stalls_percent", "tokens_per_s", "tokens_per_s_per_device"),
    *("skipped", "nan", "last_loss", "last_validation_loss", "memory_mib", *MEMORY),
]
DATA = Path(__file__).resolve().parents[2] / "data"
MEGATRON = partial(measure, readers_of("megatron_deepspeed"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train_0.log"
    path.write_text("".join(megatron(step, rate=1.1, of=3) + "\n" for step in (1, 2, 3)))
    return path


def test_json_is_one_object_with_every_key(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", str(log), "--format", "json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["schema", *KEYS]
    assert result["status"] in STATUSES
    assert (result["logged_lines"], result["samples_per_s"]) == (3, 1.1)


def test_table_shows_the_same_and_the_reason(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", str(log), "--system", "megatron_deepspeed"]) == 0
    shown = capsys.readouterr().out
    assert all(key in shown for key in KEYS if not re.search("reason|memory|_ci_", key))
    assert "memory" not in shown  # the log says none
    assert "named by --system" in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.log"], "nowhere.log cannot be read: No such file or directory"),
        (["."], ". is a folder; name the logs in it"),
        (["LOG", "--system", "megatron_deepsped"], "did you mean"),
        (["LOG", "--global-batch-size", "0"], "must be at least 1"),
        (["LOG", "--warmup-iters", "-1"], "must be at least 0"),
        (["LOG", "--devices", "0"], "--devices is 0; it must be at least 1"),
        (["LOG", "--tokens-per-sample", "9" * 30], "may be at most 1,000,000,000"),
        (
            ["LOG", "--family", "megatrom"],
            "there is no family 'megatrom' (did you mean 'megatron'?)",
        ),
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


def test_each_log_is_a_row_and_a_broken_one_is_no_end(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "=cmd|x\x1b[31m.log"
    evil.write_text(libai(99, time=1.0, rate=4.0) + "\n")
    files = [str(log), str(evil), str(tmp_path / "none.log")]
    for form in ("table", "markdown", "csv"):
        assert main(["parse", "--each", *files, "--format", form]) == 2
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert all(word in shown for word in ("megatron", "libai", "unreadable", "No such file"))
    assert main(["parse", "--each", *files, "--format", "json"]) == 2
    rows = json.loads(capsys.readouterr().out)
    assert [list(row) for row in rows] == [["log", "schema", *KEYS]] * 3
    assert [row["log"] for row in rows] == files
    assert [row["family"] for row in rows] == ["megatron", "libai", None]
    assert main(["parse", "--each", str(log), str(log)]) == 0
    shown = capsys.readouterr().out
    assert "tokens/s" not in shown  # a figure that no log has takes no column
    assert shown.count("Megatron's") == 1  # the same reason stands there once


def test_csv_of_logs_has_every_key_and_no_formula(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(log.parent)
    Path("=1+1").write_text(log.read_text())
    assert main(["parse", "--each", log.name, "=1+1", "--format", "csv"]) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header == ",".join(["log", *KEYS])
    assert first.startswith("train_0.log,megatron_lm,megatron,ok,")
    assert first.endswith(",3,2,1,1,3,3,14131.6,14131.6,1.1,,,1.1,0.0,,,0,0,12.64968,,,,,,")
    assert second.startswith("'=1+1,")


def test_one_run_may_be_a_row_too(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", str(log), str(log), "--format", "markdown"]) == 0
    assert f"{log}, {log}" in capsys.readouterr().out.replace("\\", "")


def test_a_family_that_is_named_is_the_only_one_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(megatron(1, rate=1.1) + "\n" + libai(99, time=1.0, rate=4.0) + "\n")
    both = [parse([path], None, family=name) for name in ("megatron", "libai", "oneflow_gpt")]
    assert [result["family"] for result in both] == ["megatron", "libai", None]
    assert [result["logged_lines"] for result in both] == [1, 1, 0]
    assert parse([path], "megatron_core", family="libai")["system"] == "megatron_core"


def test_a_step_time_is_derived_where_the_lines_have_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("step: 9, loss: 9.9, throughput: 100.0 1607418413.2\n")
    result = parse([path], None, global_batch_size=50)
    assert result["step_time_ms"] == 500
    assert "step time from the batch size and samples/s" in result["reason"]
    without = parse([path], None)
    assert without["step_time_ms"] is None
    assert "(--global-batch-size N)" in without["reason"]


def test_tokens_of_a_job_follow_from_samples(log: Path) -> None:
    result = parse([log], None, tokens_per_sample=1000, devices=4)
    assert (result["tokens_per_s"], result["tokens_per_s_per_device"]) == (1100, 275)
    assert "tokens/s from samples/s and 1000 tokens per sample" in result["reason"]
    assert parse([log], None, devices=4)["tokens_per_s"] is None


def test_a_log_of_tokens_says_its_own_sizes_or_the_user_does(tmp_path: Path) -> None:
    whole = (DATA / "torchtitan" / "metrics_0.2.2.log").read_text()
    result = parse([DATA / "torchtitan" / "metrics_0.2.2.log"], None)
    assert (result["system"], result["family"]) == ("torchtitan", "torchtitan")
    assert result["tokens_per_s"] == pytest.approx(result["tokens_per_s_per_device"] * 4)
    assert result["samples_per_s"] == pytest.approx(result["tokens_per_s"] / 8192)
    steps = tmp_path / "steps.log"  # what is left of it where only the steps were kept
    steps.write_text("".join(line + "\n" for line in whole.splitlines() if "tps:" in line))
    bare = parse([steps], None)
    assert bare["tokens_per_s_per_device"] == result["tokens_per_s_per_device"]
    assert (bare["tokens_per_s"], bare["samples_per_s"], bare["step_time_ms"]) == (None,) * 3
    assert "(--devices N)" in bare["reason"]
    assert "(--tokens-per-sample N)" in bare["reason"]
    told = parse([steps], None, devices=4, tokens_per_sample=8192, global_batch_size=4)
    for key in ("tokens_per_s", "samples_per_s", "step_time_ms"):
        assert told[key] == pytest.approx(result[key]), key


def test_a_batch_of_tokens_is_none_of_samples(tmp_path: Path) -> None:
    """nanotron's global_batch_size counts tokens."""
    whole = (DATA / "nanotron" / "logger_2026_04.log").read_text()
    steps = tmp_path / "steps.log"
    steps.write_text("".join(line + "\n" for line in whole.splitlines() if "lm_loss:" in line))
    bare = parse([steps], None)
    assert (bare["family"], bare["samples_per_s"]) == ("nanotron", None)
    assert bare["tokens_per_s"] == pytest.approx(180_660, abs=1)
    told = parse([steps], None, tokens_per_sample=2048)
    assert told["samples_per_s"] == pytest.approx(bare["tokens_per_s"] / 2048)


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
    assert all(result[key] is None for key in KEYS[7:])
    assert main(["parse", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "no step was logged" in printed
    assert "–" not in printed  # no table of dashes


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
    lines = (megatron(1), megatron(2), last, "[after training is done] datetime: 2023-10-01")
    path.write_text("\n".join(lines) + "\n")
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


@pytest.mark.parametrize("each", [1, 10])
def test_samples_over_time_is_one_figure_however_often_a_run_logs(
    each: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SOAP's log: each tenth step is slow. It was 2,008 samples/s by lines of one step."""
    steps = [1327.0 if at % 10 == 0 else 255.0 for at in range(1, 1011)]
    means = [fmean(steps[at - each : at]) for at in range(each, 1011, each)]
    path = tmp_path / "log"
    path.write_text(
        "\n".join(megatron(at * each, ms=ms, batch=512, of=1010) for at, ms in enumerate(means, 1))
        + "\n"
    )
    result = parse([path], None, warmup_iters=10, tokens_per_sample=100, devices=8)
    assert result["samples_per_s"] == pytest.approx(1413.584, abs=1e-3)
    assert result["step_time_ms"] == pytest.approx(362.2)
    assert result["tokens_per_s"] == pytest.approx(141_358.4, abs=0.1)
    assert result["tokens_per_s_per_device"] == pytest.approx(141_358.4 / 8, abs=0.1)
    middle = (2007.843, 255, 42.0392) if each == 1 else (1413.584, 362.2, 0)
    keys = ("samples_per_s_median", "step_time_ms_median", "stalls_percent")
    assert [result[key] for key in keys] == pytest.approx(middle, abs=1e-3)
    assert ("took 42.0 % more time than the median one" in result["reason"]) == (each == 1)
    assert main(["parse", str(path), "--warmup-iters", "10"]) == 0
    shown = capsys.readouterr().out
    assert f"± {0.3 if each == 1 else 0.0} % (its steps)" in shown
    assert "_ci_" not in shown


@pytest.mark.parametrize("count", [100, 300, 5000])
def test_intervals_are_those_that_collect_has_for_the_same_steps(
    count: int, tmp_path: Path
) -> None:
    steps = np.random.default_rng(count).normal(1000, 30, count).round(1).tolist()
    path = tmp_path / "log"
    path.write_text(
        "\n".join(megatron(at, ms=ms, batch=64, of=count) for at, ms in enumerate(steps, 1)) + "\n"
    )
    result = parse([path], None, warmup_iters=0)
    ends = [result[f"samples_per_s_steps_ci_{end}"] for end in ("low", "high")]
    half = run_mean(steps).half or 0
    rate = result["samples_per_s"]
    assert ends == pytest.approx([rate / (1 + half), rate / (1 - half)], rel=1e-3)
    short = parse([path], None, warmup_iters=count - 31)
    assert short["samples_per_s"]
    assert {short[key] for key in KEYS if "_ci_" in key} == {None}


def test_help_imports_no_parser() -> None:
    """numpy alone takes longer than all else that the command line needs."""
    code = "import sys; from runner.__main__ import parser; parser(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


MATRIX = """\
defaults:
  system: command
  cwd: /opt/x
  argv: [python3, train.py]
  log: {step: 'step (\\d+)/(\\d+)', loss: 'lozz (\\S+)'}
"""


def test_a_matrixs_patterns_are_tried_on_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, matrix = tmp_path / "a.log", tmp_path / "m.yaml"
    log.write_text("".join(f"step {n}/9 | loss {10 - n}.5\n" for n in range(1, 10)))
    matrix.write_text(MATRIX)
    argv = ["parse", str(log), "--matrix", str(matrix), "--format", "json"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["last_iteration"], found["last_loss"]) == ("ok", 9, None)
    assert "`loss` matched no line of a step" in found["reason"]
    matrix.write_text(MATRIX.replace("lozz", "loss"))
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["last_loss"] == 1.5
    brought = ["import", str(log), "--matrix", str(matrix), "--into", "x", "--devices", "1"]
    assert main([*brought, "--runs", str(tmp_path / "runs")]) == 0
    assert "cell a: ok, 9 lines" in capsys.readouterr().out
    timed = MATRIX.replace("'lozz", "'loss").replace("log: {", "log: {samples_per_s: 'xx(.)', ")
    for sizes, devices, batch in (
        ("samples_per_step: 64, tokens_per_sample: 512", [], 64),
        ("samples_per_step: data_parallel * 4, tokens_per_sample: 512", ["--devices", "8"], 32),
        ("samples_per_step: data_parallel * 4, tokens_per_sample: 512", [], None),
        ("samples_per_step: 64", ["--global-batch-size", "16", "--tokens-per-sample", "512"], 16),
    ):
        step_time = "log: {step_time: {pattern: 'dt (.)', unit: s}, "
        matrix.write_text(timed.replace("log: {", step_time) + f"  {sizes}\n".replace(", ", "\n  "))
        log.write_text("".join(f"step {n}/9 | loss {10 - n}.5 dt 2\n" for n in range(1, 10)))
        assert main([*argv, *devices]) == 0
        found = json.loads(capsys.readouterr().out)
        rate = batch / 2 if batch else None
        assert (found["samples_per_s"], found["tokens_per_s"]) == (rate, rate and rate * 512)
    for wrong, words in (
        ("defaults: {system: torch_gpt, model: gpt2-tiny}", "has no `log:`"),
        (
            MATRIX + "  parameters: {a: 1}\naxes: {a: [1]}\ninclude: [{a: 2, log: torchtitan}]",
            "has several `log:`",
        ),
    ):
        matrix.write_text(wrong)
        assert main(argv) == 2
        assert words in capsys.readouterr().err
    assert main([*argv, "--family", "torchtitan"]) == 2
    assert "--matrix says how the log reads" in capsys.readouterr().err
