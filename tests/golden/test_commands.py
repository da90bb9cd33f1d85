"""Whole commands on this machine: help, dry run, a campaign from launch to table.

The trainer is the stand-in (tests/stand_in.py); Ansible, the supervisor and everything else are
real, over a local connection.
"""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

import pytest
import yaml

from runner import __version__
from runner.__main__ import main
from runner.base.paths import PROJECT
from runner.systems.common.registry import system_names
from tests.golden.places import inventory, stood_in
from tests.on_nodes.campaign import Bench
from tests.runner.builders import one_device

WIDE = {"COLUMNS": "200"}


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which takes a second."""
    line = [sys.executable, "-m", "runner", *arguments]
    env = {**os.environ, **WIDE}
    return subprocess.run(line, capture_output=True, text=True, cwd=PROJECT, env=env)


def runner(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, WIDE), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


# --- help -----------------------------------------------------------------------------------------


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"{__version__}\n"


def test_systems_are_listed_with_their_pins_and_parameters() -> None:
    listed = started("systems")
    assert listed.returncode == 0
    assert "torch_gpt" in listed.stdout
    assert "torch-2.13, torch-2.12, torch-2.11" in listed.stdout
    shown = runner("systems", "torch_gpt").stdout
    for word in ("global_batch_size", "devices_per_node", "zero_stage", "device_ids"):
        assert word in shown
    assert "one of fp32, bf16, fp16" in shown
    assert "a whole number of at least 1" in shown
    wrong = runner("systems", "torch_gtp")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'torch_gpt'?" in wrong.stderr


@pytest.mark.parametrize("words", [(), *((name,) for name in system_names())])
def test_systems_fit_a_terminal_of_80_columns(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["systems", *words]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


# --- dry run --------------------------------------------------------------------------------------


@pytest.fixture
def far_away(tmp_path: Path) -> list[str]:
    """Arguments of a dry run on two nodes that do not exist: nothing may connect to them."""
    hosts = {"nodes": {"hosts": {name: {"ansible_host": f"{name}.invalid"} for name in ("a", "b")}}}
    variables = {"cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"}, "cluster_device_memory_mib": 10}
    place = inventory(tmp_path / "far", hosts, **variables)
    matrix = tmp_path / "m.yaml"
    matrix.write_text(
        'defaults: {system: torch_gpt, nodes: 2, env: {NOTE: "it\'s $HOME"}}\n'
        "axes: {zero_stage: [0, 1]}"
    )
    runs = str(tmp_path / "runs")
    return ["bench", "--matrix", str(matrix), "-i", str(place), "--runs", runs, "--dry-run"]


def test_a_dry_run_for_people_can_be_read_and_pasted(
    far_away: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*far_away, "--only", "zero_stage=1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["1 cell; uses 2 of 2 devices per node; 2 of 2 nodes", ""]
    assert lines[2].startswith("cell zero_stage=1  (zero_stage=1-")
    assert lines[3].startswith("  estimated memory per device ")
    assert lines[4] == "  warning: a device has 10 MiB; this cell may not fit"
    assert lines[5] == "  a  node_rank 0"
    assert lines[6].startswith("    cwd  /opt/tb/")
    assert "NOTE='it'\"'\"'s $HOME'" in lines[7]
    assert lines[8].startswith("    run  /opt/tb/systems/torch_gpt/torch-2.13/env/bin/python3 -m ")
    assert lines[9] == "  b  node_rank 1"
    assert lines[-2] == ""
    assert re.fullmatch(
        r"total: 1 run; about \d+ (s|min); largest memory of a device \d+ MiB, estimated"
        r" \(zero_stage=1\)",
        lines[-1],
    )
    assert len(lines) == 15


def test_the_quickstart_and_every_matrix_of_the_project_can_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "--matrix", str(PROJECT / "matrix.yaml"), "--dry-run"]) == 0
    assert capsys.readouterr().out.count("cell ") == 4
    from runner.matrix.file import load_matrix

    for path in (PROJECT / "matrices").glob("*/*.yaml"):
        assert load_matrix(path, one_device).cells


# --- a campaign -----------------------------------------------------------------------------------

CELLS: dict[str, Any] = {
    "name": "small",
    "defaults": {"system": "torch_gpt", "train_iters": 8, "env": {"STEP_S": "0.002"}},
    "axes": {"zero_stage": [0, 1]},
    "include": [
        {"zero_stage": 2, "env": {"ACT": "exit_3"}},
        {"zero_stage": 3, "env": {"ACT": "no_step"}},
    ],
    "warmup_iters": 2,
    "baseline": "zero_stage=0",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


@pytest.fixture(scope="module")
def bench(folder: Path, stand_in_root: Path) -> Bench:
    return Bench(folder, stood_in(folder / "here", stand_in_root), CELLS)


@pytest.fixture(scope="module")
def first(bench: Bench) -> subprocess.CompletedProcess[str]:
    """The first bench of the campaign: two good cells, one that fails, one without a step."""
    return bench.run()


def collect(bench: Bench, *more: str) -> subprocess.CompletedProcess[str]:
    return runner("collect", "--runs", str(bench.runs), *more)


def test_a_campaign_ends_with_the_table_and_exit_code_1_for_a_failed_cell(
    first: subprocess.CompletedProcess[str], bench: Bench
) -> None:
    assert first.returncode == 1, first.stderr
    status = {
        name: bench.outcome(f"zero_stage={number}")["status"]
        for number, name in enumerate(("zero", "one", "two", "three"))
    }
    assert status == {"zero": "ok", "one": "ok", "two": "failed", "three": "no_steps"}
    shown = " ".join(first.stdout.split())
    assert "ValueError: the stand-in failed at step 3" in shown
    assert "log has no step" in shown
    assert "TFLOP/s" in shown


def test_progress_is_told_on_standard_error(first: subprocess.CompletedProcess[str]) -> None:
    # A busy machine takes so long that the line of every ten seconds comes between.
    lines = [line for line in first.stderr.splitlines() if not re.search("left|: starting", line)]
    assert lines[0].startswith("campaign small-here: 4 runs; uses 2 of 2 devices per node; folder ")
    assert lines[1].startswith("[1/4] zero_stage=0: ok, ")
    assert re.search(r"samples/s, loss 7\.273 to 4\.444, 8 iterations, \d+ s$", lines[1])
    assert lines[3].startswith("[3/4] zero_stage=2,env=ACT:exit_3: failed")
    assert "exit code 3: ValueError: the stand-in failed at step 3 (logs in " in lines[3]
    assert lines[4].startswith("[4/4] zero_stage=3,env=ACT:no_step: no_steps - ")
    assert lines[5] == "2 ok, 2 not ok"


def test_events_of_the_campaign_lie_in_its_folder(
    first: subprocess.CompletedProcess[str], bench: Bench
) -> None:
    happened = [json.loads(line) for line in (bench.campaign / "events.jsonl").open()]
    runs = ["run_begun", "run_ended"] * 4
    assert [each["event"] for each in happened[:10]] == ["campaign_begun", *runs, "campaign_ended"]
    assert (happened[2]["status"], happened[2]["last_loss"]) == (
        "ok",
        pytest.approx(4.444, abs=1e-3),
    )
    assert happened[2]["samples_per_s"] == pytest.approx(8000, rel=0.01)  # as collect says
    assert (happened[9]["ok"], happened[9]["not_ok"]) == (2, 2)


def test_the_folder_of_a_run_has_all_that_a_reader_needs(
    first: subprocess.CompletedProcess[str], bench: Bench
) -> None:
    attempt = bench.attempt("zero_stage=0")
    assert {path.name for path in attempt.iterdir()} == {
        *("run.json", "launch.sh", "outcome.json", "nodes"),
    }
    node = attempt / "nodes" / "0000-localhost"
    # Samples come once a second: a run as short as this may have none.
    assert {path.name for path in node.iterdir()} - {"samples.csv"} == {
        *("prepared", "launcher.log", "arrivals", "done.json"),
    }
    assert (node / "launcher.log").read_bytes().count(b"torch_gpt step=") == 8
    last_arrival = (node / "arrivals").read_text().splitlines()[-1]
    assert int(last_arrival.split()[1]) == (node / "launcher.log").stat().st_size
    failed = json.loads((bench.attempt("zero_stage=2") / "halt").read_text())
    assert (failed["host"], failed["cause"]) == ("localhost", "exit")
    assert not list((bench.runs / ".ansible").glob("tmp*"))  # the play's own
    assert oct((bench.runs / ".ansible").stat().st_mode & 0o777) == "0o700"


def as_json(bench: Bench, *more: str) -> list[dict[str, Any]]:
    done = collect(bench, "--format", "json", *more)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def test_collect_as_json_has_numbers_for_what_trained_and_none_for_what_did_not(
    first: subprocess.CompletedProcess[str], bench: Bench
) -> None:
    rows = as_json(bench)
    assert [row["status"] for row in rows] == ["ok", "ok", "failed", "no_steps"]
    # As the stand-in prints.
    assert rows[0]["figures"]["samples_per_s"] == pytest.approx(8000, rel=0.01)
    assert rows[3]["figures"]["samples_per_s"] is None
    assert rows[0]["figures"]["memory_rss_mib"] == 100.0
    assert rows[0]["figures"]["memory_allocated_mib"] is None
    name = bench.campaign.name
    assert as_json(bench, name) == as_json(bench, "--campaign", name) == rows


def test_a_page_is_written_into_a_new_folder_with_links_to_its_logs(
    first: subprocess.CompletedProcess[str], bench: Bench, folder: Path
) -> None:
    page = folder / "new" / "report.html"
    done = started("collect", "--runs", str(bench.runs), "--format", "html", "--output", str(page))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {page}\n")
    links = re.findall(r'href="([^"]*launcher\.log)"', page.read_text(encoding="utf-8"))
    assert len(set(links)) == 4
    assert all((page.parent / unquote(link)).is_file() for link in links)


def test_collect_can_be_repeated_and_changes_nothing(
    first: subprocess.CompletedProcess[str], bench: Bench
) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in bench.campaign.rglob("*")
        }

    before = state()
    assert collect(bench).stdout == collect(bench).stdout
    assert state() == before


def test_collect_without_any_campaign_says_how_to_make_one(tmp_path: Path) -> None:
    done = runner("collect", "--runs", str(tmp_path))
    assert done.returncode == 2
    assert "there are no campaigns under" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["collect", "--campaign", "smal-here"], "did you mean 'small-here'?"),
        (["compare", "small-here", "smal-here"], "did you mean 'small-here'?"),
        (["export", "small-here", "-o", "/proc/none/x"], "/proc/none/x cannot be written"),
        (["export", "small-here", "-o", "/tmp"], "/tmp is a folder; name a file"),
    ],
)
def test_what_is_not_there_is_one_sentence_and_exit_code_2(
    first: subprocess.CompletedProcess[str], bench: Bench, line: list[str], words: str
) -> None:
    done = runner(*line, "--runs", str(bench.runs))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_a_campaign_grows_and_says_beforehand_what_that_is(
    first: subprocess.CompletedProcess[str], bench: Bench, folder: Path
) -> None:
    """Last of all: a value, a repeat and a table more, and a failing cell less."""
    other = folder / "other.yaml"
    more = {"axes": {"zero_stage": [0, 1, 3]}, "include": CELLS["include"][:1], "repeats": 2}
    other.write_text(yaml.safe_dump({**CELLS, **more, "warmup_iters": 3, "baseline": None}))
    before = sorted(bench.campaign.rglob("*"))
    argv = ["bench", "--matrix", str(other), "-i", str(bench.inventory), "--runs", str(bench.runs)]
    plan = runner(*argv, "--plan")
    assert plan.returncode == 0, plan.stderr
    lines = [" ".join(line.split()) for line in plan.stdout.splitlines()]
    assert lines[0] == "campaign small-here: 3 kept, 5 new, 1 hidden"
    assert lines[1].startswith("hidden: 1 run not in this matrix any more, 1 cell (zero_stage=3,")
    took = r"about [\d.]+ s, as"
    assert re.fullmatch(f"zero_stage=0 1 1 {took} its own finished runs", lines[5])
    assert re.fullmatch(f"zero_stage=3 0 2 {took} the campaign's finished runs", lines[7])
    assert re.match(r"total: 5 runs; about [\d.]+ s, one after the other; largest", lines[-1])
    counts = json.loads(runner(*argv, "--plan", "--format", "json").stdout)
    assert [counts[key] for key in ("kept", "new", "unknown")] == [3, 5, 0]
    assert sorted(bench.campaign.rglob("*")) == before
    done = runner(*argv, "--only", "zero_stage=[01]", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "4 runs, 2 already done" in done.stderr
    table = json.loads(done.stdout)
    assert table["hidden"] == lines[1]
    assert [(row["cell"], row["status"]) for row in table["rows"]] == [
        *(("zero_stage=0", "ok"), ("zero_stage=1", "ok"), ("zero_stage=3", "pending")),
        ("env=ACT:exit_3,zero_stage=2", "failed"),  # by its keys' order today; its folder stays
    ]
    assert {row["figures"]["warmup_iters"] for row in table["rows"][:2]} == {3}
    assert lines[1] in collect(bench, "--format", "csv").stderr
    assert lines[1] in runner("compare", str(bench.campaign), str(bench.campaign)).stdout
    kept = runner("export", str(bench.campaign), "-o", str(folder / "grown.tar.gz"))
    assert lines[1] in kept.stderr
    back = runner(*bench.argv("--plan")[3:])
    assert back.stdout.startswith("campaign small-here: 4 kept, 0 new, 2 hidden\nhidden: 2 runs")
    assert "(zero_stage=3)" not in back.stdout
