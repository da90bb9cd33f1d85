"""Logs from elsewhere become runs that collect, compare, status and export read as any other."""

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.__main__ import main
from runner.archive.imported_cells import names_of
from runner.base.errors import UserError
from runner.commands.parse import parse
from runner.figures.curves import last_loss
from runner.folder.campaign import Campaign
from runner.results.records import records_of
from runner.tables.build import measured
from runner.tables.campaign_table import to_table
from runner.terms.cell import Matrix
from runner.terms.record import Record
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import Story, torch_gpt, write
from tests.runner.documents import rows
from tests.runner.logs.made_lines import libai, megatron

DATA = Path(__file__).resolve().parents[2] / "data"
pytestmark = pytest.mark.made_log

DEVICES = ("--devices", "8")
PROGRESS = ("trained", "planned")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def log(path: Path, steps: int = 30, *, ms: float = 1000.0, then: str = "", **more: Any) -> Path:
    """A whole Megatron log, whose every line has another time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    more = {"ms": ms, "batch": 64, "of": steps, **more}
    lines = [megatron(n, **{**more, "ms": more["ms"] + n % 7}) for n in range(1, steps + 1)]
    path.write_text("\n".join(lines) + "\n" + then)
    return path


def bring(runs: Path, *words: object, into: str = "others") -> int:
    return main(["import", *map(str, words), "--into", into, "--runs", str(runs)])


def records(runs: Path, name: str = "others") -> list[Record]:
    return records_of(Campaign(runs / name), runs)


def test_each_log_is_a_cell_that_collect_reads(runs: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.txt"
    slow.write_text(
        "".join(libai(at, time=1.0, rate=4.0, of=100) + "\n" for at in range(9, 100, 10))
    )
    assert bring(runs, log(tmp_path / "fast.log"), slow, *DEVICES, "--warmup-iters", "10") == 0
    fast, other = records(runs)
    assert [fast.cell, other.cell] == ["fast", "slow"]
    assert [fast.system, other.system] == ["megatron_lm", "libai"]
    assert [fast.status, other.status] == ["ok", "ok"]
    assert (fast.world_size, fast.global_batch_size, fast.hosts) == (8, 64, ())
    first, second = rows([fast, other])
    assert first["figures"]["samples_per_s"] == pytest.approx(64 / 1.003, rel=1e-3)
    assert first["figures"]["samples_per_s_per_device"] == pytest.approx(8 / 1.003, rel=1e-3)
    assert first["figures"]["mfu_percent"] is None  # nobody said it
    assert first["figures"]["tokens_per_s"] is None
    assert "imported" in first["verdict_reasons"]
    assert second["figures"]["samples_per_s"] == pytest.approx(4, rel=1e-2)


def alike(one: float | None, other: float | None) -> bool:
    """Whether two figures are the same to the last digit that `parse` prints."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)


def test_collect_reads_each_family_as_parse_does(runs: Path) -> None:
    """Recorded logs, with what both are told; no line is left out in either."""
    recorded = [path for path in DATA.rglob("*.log") if path.parent.name != "torchrun"]
    told = ("--devices", "8", "--tokens-per-sample", "1024", "--warmup-iters", "0")
    assert bring(runs, *recorded, *told) == 0
    cells, _ = measured(records(runs))
    assert len({cell.record.parameters["log"] for cell in cells}) > 4
    for path, cell in zip(recorded, cells, strict=True):
        read = parse([path], None, devices=8, tokens_per_sample=1024, warmup_iters=0)
        system = read["family"] if read["system"] == "command" else read["system"]
        assert (cell.record.system, cell.status) == (system, read["status"]), path
        rate = cell.statistics.samples_per_s
        if cell.record.measurement.rate_doubt:  # of a log that says another length than it was told
            assert "the log says 2048, not --tokens-per-sample 1024" in read["reason"]
            assert rate is None
            continue
        time = cell.statistics.step_time_ms
        for figure, key in ((rate, "samples_per_s"), (time, "step_time_ms")):
            assert alike(figure.value if figure else None, read[key]), path
            assert alike(figure.median if figure else None, read[f"{key}_median"]), path
        assert alike(cell.statistics.stalls_percent, read["stalls_percent"]), path
        if cell.status == "ok":
            assert last_loss(cell.record.measurement.intervals)[0] == read["last_loss"], path


def test_no_default_of_a_system_is_taken_for_a_fact(runs: Path, tmp_path: Path) -> None:
    assert bring(runs, log(tmp_path / "a.log"), *DEVICES, "--system", "megatron_core") == 0
    (record,) = records(runs)
    assert record.system == "megatron_core"
    told = {"log": "megatron", "samples_per_step": 64, "train_iters": 30}
    assert record.parameters == told
    assert (record.model, record.arithmetic, record.parallel) == (None, None, {})
    assert (record.fingerprinted, record.micro_batch_size) == ((), None)


def test_what_the_user_says_gives_tokens_and_mfu(runs: Path, tmp_path: Path) -> None:
    said = ("--tokens-per-sample", "1000", "--device-name", "NVIDIA H200", "--warmup-iters", "1")
    keys = ("precision=bf16", "model_flops_per_token=1e9", "lr=3e-4", "tensor_parallel=2")
    sets = [word for key in keys for word in ("--set", key)]
    assert bring(runs, log(tmp_path / "a.log"), *DEVICES, *said, *sets) == 0
    (record,) = records(runs)
    (row,) = rows([record])
    assert record.axes == {"precision": "bf16", "lr": 3e-4, "tensor_parallel": 2}
    assert record.parallel == {"tensor_parallel": 2}
    assert row["figures"]["tokens_per_s"] == pytest.approx(63_800, rel=1e-2)
    assert row["figures"]["mfu_percent"] == pytest.approx(
        100 * 63.8e3 * 1e9 / 8 / 989.5e12, rel=1e-2
    )
    assert "unknown_peak" not in row["verdict_reasons"]
    assert row["figures"]["hfu_percent"] is None
    assert "computed again" in row["missing"]["hfu_percent"]


def test_importing_again_adds_cells_and_repeats(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = (log(tmp_path / f"{name}.log", ms=100.0 + ord(name)) for name in "abc")
    assert bring(runs, a, *DEVICES) == 0
    assert bring(runs, b, *DEVICES, "--cell", "a") == 0
    assert bring(runs, c, *DEVICES) == 0
    assert [(one.cell, one.repeat) for one in records(runs)] == [("a", 1), ("a", 2), ("c", 1)]
    assert "cell a, repeat 2: ok, 30 lines" in capsys.readouterr().out
    assert len(rows(records(runs))) == 2
    other = log(tmp_path / "other" / "d.log", ms=130)
    assert bring(runs, other, "--devices", "4", "--cell", "a") == 2
    assert "cell a has devices_per_node 8, and this log 4" in capsys.readouterr().err
    assert bring(runs, log(tmp_path / "other" / "a.log", ms=140), *DEVICES) == 2
    assert "--cell a makes this log a repeat of it" in capsys.readouterr().err
    assert len(records(runs)) == 3


def test_the_same_log_twice_is_refused_by_its_bytes(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = log(tmp_path / "a.log")
    two = Path(shutil.copy(one, tmp_path / "b.log"))
    assert bring(runs, one, two, *DEVICES) == 2
    assert f"{two} is the same log as {one}" in capsys.readouterr().err
    assert not runs.exists()
    assert bring(runs, one, *DEVICES) == 0
    assert bring(runs, two, *DEVICES) == 2
    assert f"is in campaign others: cell a, repeat 1, was {one}" in capsys.readouterr().err
    assert len(records(runs)) == 1


def test_logs_of_one_runs_nodes_are_one_run(runs: Path, tmp_path: Path) -> None:
    first = log(tmp_path / "n0.log", 20)
    second = tmp_path / "n1.log"
    second.write_text("".join(megatron(at, ms=900.0, batch=64) + "\n" for at in range(21, 31)))
    assert bring(runs, first, second, "--one-run", "--devices", "16") == 0
    (record,) = records(runs)
    assert (record.cell, record.nodes, record.devices_per_node) == ("n0", 2, 8)
    assert len(record.measurement.intervals) == 30
    assert bring(runs, log(tmp_path / "n2.log", 5), "--nodes", "4", "--devices", "16") == 0
    assert records(runs)[1].nodes == 4


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried\n", "failed", "memory"),
        ("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2021 ***\n", "interrupted", ""),
        (megatron(31, loss=float("nan")) + "\n", "diverged", "iteration 31"),
    ],
)
def test_a_run_ended_as_parse_says(
    text: str, status: str, reason: str, runs: Path, tmp_path: Path
) -> None:
    path = log(tmp_path / "a.log", then=text)
    assert bring(runs, path, *DEVICES) == 0
    (record,) = records(runs)
    assert (record.status, reason in record.reason) == (status, True)
    if record.diagnosis:
        assert (runs / record.log).name == "launcher.log"
        assert "0000-imported-log/launcher.log:31" in record.reason


def test_a_run_that_never_trained_and_one_that_was_cut(runs: Path, tmp_path: Path) -> None:
    dead = tmp_path / "dead.log"
    dead.write_text("starting pretrain_gpt\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\n")
    cut = tmp_path / "cut.log"
    cut.write_text(torch_gpt(20, of=50).replace(" backend", " train_iters=50 backend"))
    assert bring(runs, dead, cut, *DEVICES) == 0
    first, second = records(runs)
    assert (first.status, first.measurement.intervals) == ("did_not_run", ())
    assert "memory" in first.reason
    why = "the log ends at iteration 20 of 50, and nothing in it says why"
    assert (second.status, second.reason) == ("unfinished", why)
    assert len(second.measurement.intervals) == 20
    table = to_table(rows([second]), wide=True)
    assert "unfinished" in table
    assert " 20/50 " in table
    row = {key: rows([second])[0]["figures"][f"iterations_{key}"] for key in PROGRESS}
    assert row == {"trained": 20, "planned": 50}


def test_a_rate_that_the_lines_themselves_refute_is_no_figure(runs: Path, tmp_path: Path) -> None:
    """16 samples in 3 s are 5.33 a second, and not 0.005: neither is printed, and why is said."""
    path = tmp_path / "a.log"
    lines = [megatron(step, of=30, ms=3000.0, batch=16, rate=0.005) for step in range(1, 31)]
    path.write_text("\n".join(lines) + "\n")
    found = parse([path], None)
    assert (found["samples_per_s"], found["tokens_per_s"]) == (None, None)
    assert found["step_time_ms"] == 3000
    assert (
        "says 16 samples an iteration, and rate x time of the log's lines make 0.015"
        in (found["reason"])
    )
    assert bring(runs, path, *DEVICES) == 0
    (row,) = rows(records(runs))
    assert row["figures"]["samples_per_s"] is None
    assert "rate x time of the log's lines make 0.015" in row["missing"]["samples_per_s"]
    assert row["figures"]["step_time_ms"]


def test_names_tell_logs_of_one_name_apart(tmp_path: Path) -> None:
    paths = [Path("x/a/train.log"), Path("x/b/train.log"), Path("other.txt")]
    assert names_of(paths[:2]) == ["a/train", "b/train"]
    assert names_of([paths[0], paths[2]]) == ["train", "other"]
    assert names_of([Path(".log"), Path("...")]) == ["log", "log"]
    assert names_of([Path("a\x1b[31m\n.log")]) == ["a"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.log"], "none.log cannot be brought in: No such file"),
        (["."], "cannot be brought in"),
        (["/dev/zero"], "cannot be brought in: it is not a plain file"),
        (["pipe"], "cannot be brought in: it is not a plain file"),
        (["empty.log"], "empty.log is empty"),
        (["note.txt"], "has no step that a known family of lines logs; name its --family"),
        (["a.log", "--devices", "0"], "--devices is 0"),
        (["a.log", "--nodes", "3"], "8 devices do not spread evenly over 3 nodes"),
        (["a.log", "--nodes", "0"], "--nodes is 0; it must be 1 to"),
        (["a.log", "b.log", "--one-run", "--nodes", "1"], "--nodes is 1, and 2 logs"),
        (["a.log", "--set", "lr"], "--set 'lr' has no `=`"),
        (["a.log", "--set", "lr=1", "--set", "lr=2"], "--set names a key twice"),
        (["a.log", "--set", "lr=[1, 2]"], "give a number, true or false, or text"),
        (["a.log", "--set", "lr={{"], "is not valid YAML"),
        (["a.log", "--set", "api_key=sk-1"], "named like a secret"),
        (["a.log", "--set", "1x=2"], "an imported run has no such key"),
        (["a.log", "--set", "argv=x"], "an imported run has no such key"),
        (["a.log", "--set", "nodes=2"], "use --nodes instead"),
        (["a.log", "--set", "precision=fp4"], "it must be one of bf16"),
        (
            ["a.log", "--set", "architecture={layers: 2}", "--tokens-per-sample", "8"],
            "is not a size",
        ),
        (["a.log", "--set", "model_flops_per_token=6"], "need tokens_per_sample"),
        (["a.log", "--cell", "\x1b]0;x"], "give printable text"),
        (["a.log", "--cell", ".."], "a cell's folder"),
        (["a.log", "--device-name", "a\nb"], "give printable text"),
        (["a.log", "--family", "megatrom"], "did you mean"),
        (["a.log", "--into", "../x"], "--into is '../x'; give a name"),
        (["a.log", "--into", ".."], "a file's name"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    log(tmp_path / "a.log")
    log(tmp_path / "b.log", ms=5.0)
    (tmp_path / "empty.log").touch()
    (tmp_path / "note.txt").write_text("to do: a log\n")
    os.mkfifo("pipe")
    before = sorted(os.listdir("."))
    line = [*words] if "--devices" in words else [*words, *DEVICES]
    line = line if "--into" in words else [*line, "--into", "others"]
    assert main(["import", *line, "--runs", "runs"]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert sorted(os.listdir(".")) == before


def test_without_devices_a_log_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bring(runs, log(tmp_path / "a.log")) == 2
    assert "does not say on how many devices it ran; give --devices N" in capsys.readouterr().err


def bench_made(runs: Path) -> tuple[Campaign, Matrix]:
    matrix = small_matrix(defaults={"train_iters": 30})
    return write(runs, matrix, small_cluster(1), lambda *_: Story({0: torch_gpt(30)})), matrix


def test_bench_and_import_leave_each_others_campaigns_alone(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, matrix = bench_made(runs)
    before = (made.path / "campaign.json").read_bytes()
    assert bring(runs, log(tmp_path / "a.log"), *DEVICES, into=made.name) == 2
    assert "no log goes into it; give --into a new name" in capsys.readouterr().err
    assert (made.path / "campaign.json").read_bytes() == before
    shutil.rmtree(made.path)
    assert bring(runs, log(tmp_path / "a.log"), *DEVICES, into=made.name) == 0
    with pytest.raises(UserError, match="has runs that no matrix asked for"):
        made.open(matrix, small_cluster(1))


def test_an_imported_run_is_compared_and_sent_as_any_other(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, _ = bench_made(runs)
    cell = made.settings.cells[0].name
    path = tmp_path / "a.log"
    path.write_text(torch_gpt(30, rate=50.0))
    assert bring(runs, path, *DEVICES, "--cell", cell) == 0
    capsys.readouterr()
    assert main(["compare", made.name, "others", "--runs", str(runs)]) == 3
    assert "one run does not show how runs differ" in capsys.readouterr().out
    assert main(["status", "--campaign", "others", "--runs", str(runs)]) == 0
    assert "1 of 1 runs ended" in capsys.readouterr().out
    target = tmp_path / "x.tar.gz"
    words = ["others", "--runs", str(runs), "-o", str(target), "--redact"]
    assert main(["export", *words]) == 0
    assert main(["collect", "--campaign", str(target), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["figures"]["samples_per_s"], row["system"]) == (
        pytest.approx(50, rel=0.05),
        "torch_gpt",
    )
    assert "imported" in row["verdict"]


def test_every_format_shows_the_mark(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bring(runs, log(tmp_path / "a.log"), *DEVICES) == 0
    for form in ("table", "csv", "html"):
        capsys.readouterr()
        assert main(["collect", "--runs", str(runs), "--format", form]) == 0
        assert "imported" in capsys.readouterr().out
    assert main(["collect", "--runs", str(runs), "--strict"]) == 1


def test_what_somebody_wrote_into_such_a_run_is_refused(runs: Path, tmp_path: Path) -> None:
    assert bring(runs, log(tmp_path / "a.log"), log(tmp_path / "b.log", ms=7.0), *DEVICES) == 0
    (file,) = (path for path in runs.rglob("run.json") if "/a-" in str(path))
    content = json.loads(file.read_text())
    outside = {"name": "x", "sha256": "../x", "bytes": 1}
    values: list[Any] = [5, [], {"logs": 1}, {"logs": [outside]}]
    for value in values:
        file.write_text(json.dumps({**content, "imported": value}))
        bad, good = records(runs)
        assert (bad.status, good.status) == ("unreadable", "ok")
    file.write_text(json.dumps({**content, "imported": {"logs": [], "system": "\x1b[31m" * 9}}))
    assert bring(runs, log(tmp_path / "c.log", ms=8.0), *DEVICES) == 2


def test_an_import_that_died_leaves_no_cell_and_can_be_made_again(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log(tmp_path / "a.log")
    assert bring(runs, log(tmp_path / "b.log", ms=9.0), *DEVICES) == 0
    with monkeypatch.context() as patch:
        patch.setattr(Campaign, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert bring(runs, path, *DEVICES) == 130
    assert [one.cell for one in records(runs)] == ["b"]
    assert bring(runs, path, *DEVICES) == 0
    assert [(one.cell, one.status) for one in records(runs)] == [("b", "ok"), ("a", "ok")]
