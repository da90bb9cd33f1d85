"""What each command prints with `--format json` fits its schema; nobody is asked, codes are told.

The trainer is the stand-in; commands, Ansible and files are real.
"""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runner.__main__ import BY_NAME, main, parser
from runner.base import questions
from tests.documented_schemas import fits
from tests.golden.places import inventory, stood_in
from tests.on_nodes.campaign import Bench
from tools.site.reference import subcommands
from tools.site.schemas import printed

MATRIX: dict[str, Any] = {
    "name": "told",
    "defaults": {"system": "torch_gpt", "model": "gpt2-tiny", "train_iters": 12},
    "axes": {"zero_stage": [0, 1]},
    "warmup_iters": 2,
    "time_limit_s": 480,
    "baseline": "zero_stage=0",
}
LOG = "".join(
    f"torch_gpt step={step}/5 samples_per_s=10.0 step_time_ms=1600.0 loss=2.0 grad_norm=1.0"
    " lr=1e-3 skipped=0 nan=0 memory_allocated_mib=- memory_used_mib=100.0\n"
    for step in range(1, 6)
)


class Place(NamedTuple):
    """What the commands are called with."""

    folder: Path
    bench: Bench

    @property
    def words(self) -> Mapping[str, str]:
        """The words in braces of WAYS."""
        made = {"out": self.folder / "out", "log": self.folder / "a.log"}
        held = {
            "matrix": self.bench.matrix,
            "i": self.bench.inventory,
            "runs": self.bench.runs,
            "tune": self.folder / "tune.yaml",
            "bad": self.folder / "bad",
            "folder": self.folder,
            "matrix2": self.folder / "other.yaml",
        }
        return {name: str(path) for name, path in {**made, **held}.items()}


# A command line, the schema of what it prints, its exit code. In the order in which they run.
WAYS: list[tuple[str, str, int]] = [
    ("bench {matrix} -i {i} --runs {runs}", "table", 0),
    ("bench {matrix} -i {i} --runs {runs} --plan", "plan", 0),
    ("bench {matrix} -i {i} --runs {runs} --dry-run", "dry_run", 0),
    ("bench {matrix} -i {i} --runs {runs} --dry-run --script --only *=0", "bench_script", 0),
    ("bench {matrix} -i {i} --runs {runs} --dry-run --script", "error", 2),
    ("bench {matrix2} -i {i} --runs {runs} --detach", "bench_detached", 0),
    ("bench {folder}/no.yaml -i {i}", "error", 2),
    ("collect --campaign told-here --runs {runs}", "table", 0),
    ("collect --campaign told-here --runs {runs} --strict", "table", 1),
    ("collect --campaign told-here --runs {runs} --shape pivot", "sheets", 0),
    ("compare told-here told-here --runs {runs}", "compare", 3),
    ("expect told-here --runs {runs}", "expect", 3),
    ("expect 9421 --device H200 --devices 8 --model-size 8B --precision bf16", "expect", 0),
    ("status --campaign told-here --runs {runs}", "status", 0),
    ("status --campaign none --runs {runs}", "error", 2),
    ("history {runs}", "regressions", 0),
    ("export told-here --runs {runs} -o {out}/e.tar.gz", "export", 0),
    ("publish told-here --runs {runs} -o {out}/p.tar.gz", "publish", 1),
    ("publish told-here --runs {runs} -o {out}/p.tar.gz --anyway", "publish", 0),
    ("publish told-here --runs {runs} --readme --anyway", "publish", 0),
    ("publish {out}/p.tar.gz --check", "publish_check", 0),
    ("publish {log} --check", "error", 2),
    ("parse {log}", "parse", 0),
    ("parse {log} --each", "parse_each", 0),
    ("import {log} --into brought --devices 1 --runs {runs}", "import", 0),
    ("systems", "systems", 0),
    ("systems torch_gpt", "systems", 0),
    ("systems torch_gtp", "error", 2),
    ("matrices", "matrices", 0),
    ("docs", "docs", 0),
    ("docs security", "docs", 0),
    ("completion bash", "completion", 0),
    ("about --runs {runs} -i {i}", "about", 0),
    ("setup -i {bad} --tags validate --runs {runs}", "playbook", 2),
    ("setup -i {i} --limit nobody --runs {runs}", "error", 2),
    ("verify -i {i} --runs {runs}", "playbook", 1),
    ("teardown -i {i} --runs {runs}", "error", 2),
    ("doctor -i {i} --runs {runs} --only env", "error", 2),
    ("accept -i {i} --runs {runs} --plan", "answer", 0),
    ("tune {tune} -i {i} --runs {runs} --plan", "answer", 0),
    ("tune {tune} -i {i} --runs {runs} --dry-run", "dry_run", 0),
    ("tune {tune} -i {i} --runs {runs} --no-measure", "answer", 0),
    ("stop --campaign none --runs {runs}", "error", 2),
    ("stop -i {i} --runs {runs}", "stop", 0),
    ("init {folder}/new --hosts localhost --device cpu --root /opt/x", "init", 0),
]
# Schemas of what takes minutes or machines: other tests compare those with what is printed.
ELSEWHERE = {"accept", "bisect", "ci", "demo", "doctor"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, stand_in_root: Path) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("machine")
    bench = Bench(folder, stood_in(folder / "here", stand_in_root), MATRIX)
    (folder / "other.yaml").write_text(json.dumps({**MATRIX, "name": "other"}))
    tuned = {key: MATRIX[key] for key in ("defaults", "time_limit_s")}
    (folder / "tune.yaml").write_text(
        json.dumps({**tuned, "name": "t", "tune": {"knobs": {"micro_batch_size": [1, 2]}}})
    )
    inventory(folder / "bad", cluster_systems=["torch_gtp"])
    (folder / "a.log").write_text(LOG)
    (folder / "out").mkdir()
    assert bench.run().returncode == 0
    yield Place(folder, bench)
    subprocess.run(
        [sys.executable, "-m", "runner", "stop", "--campaign", "other-here"], check=False
    )


def called(words: list[str]) -> tuple[int, str]:
    """A command in this process: its exit code, and what it printed; --detach would fork us."""
    if "--detach" in words:
        argv = [sys.executable, "-m", "runner", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=400)
        return done.returncode, done.stdout
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            return main(words), out.getvalue()
        except SystemExit as ended:
            return int(str(ended.code)), out.getvalue()


@pytest.mark.parametrize(("line", "name", "code"), WAYS, ids=[line for line, *_ in WAYS])
def test_what_a_command_prints_fits_its_schema(
    line: str, name: str, code: int, place: Place
) -> None:
    words = [word.format(**place.words) for word in line.split()]
    rc, out = called([*words, "--format", "json", "--non-interactive"])
    document = json.loads(out)
    if isinstance(document, dict) and "error" in document and name != "error":
        pytest.fail(str(document["error"]))
    fits(document, name)
    versions = [each["schema"] for each in (document if isinstance(document, list) else [document])]
    assert set(versions) == {1}
    assert rc == code or (name == "answer" and rc == 3), (
        out
    )  # none is surely faster on a loaded machine


def test_every_command_and_every_schema_is_among_them() -> None:
    called_here = {line.split()[0] for line, *_ in WAYS}
    assert called_here | ELSEWHERE >= BY_NAME.keys()
    called_for = {name for _, name, _ in WAYS}
    named = {
        name
        for each in subcommands(parser()).values()
        for name in each.get_default("answers") or ()
    }
    assert named - called_for - ELSEWHERE == set()
    for name in named:
        assert "schema" in json.dumps(printed(name))


def test_every_command_has_the_options_and_says_its_exit_codes() -> None:
    for name, command in subcommands(parser()).items():
        text = command.format_help()
        assert "--non-interactive" in text, name
        assert "--format" in text, name
        assert "exit codes:" in text, name


def test_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(questions, "_forbidden", [])
    assert questions.can_ask()
    questions.ask_nobody()
    assert not questions.can_ask()


def test_a_command_line_that_is_wrong_is_told_to_a_machine_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", "--format", "json", "--nonsense"])
    assert ended.value.code == 2
    document = json.loads(capsys.readouterr().out)
    fits(document, "error")
    assert "--nonsense" in document["error"][0]
