"""What runs by day of the suites of the night: tests/nightly.py."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from tests import nightly
from tests.conftest import ROOT

FILES = {
    "test_mixed.py": """
        def test_ordinary(): pass
        @pytest.mark.nightly("soak")
        def test_long(): pass
    """,
    "test_night.py": """
        pytestmark = pytest.mark.nightly("kills")
        def test_first(record_property): record_property("fault", "one")
        def test_second(record_property): record_property("fault", "two"); assert False
    """,
    "test_rows.py": """
        @pytest.mark.nightly("faults", by_day="row")
        @pytest.mark.parametrize("row", range(3))
        def test_row(row): pass
    """,
    "test_tenth.py": """
        from tests.budget import some
        @pytest.mark.parametrize("case", some(range(12)))
        def test_case(case): pass
    """,
    "test_never.py": """
        @pytest.mark.nightly("oneflow", by_day="827 MB")
        def test_large(): pass
    """,
}


@pytest.mark.parametrize(
    ("day", "words", "ran"),
    [
        ("9", (), {"ordinary", "first", "row[0]", "case[9]"}),
        ("11", (), {"ordinary", "first", "row[2]", "case[1]", "case[11]"}),
        ("9", ("--nightly", "faults"), {"row[0]", "row[1]", "row[2]"}),
        ("9", ("--nightly", "oneflow"), {"large"}),
        ("9", ("--nightly", "properties"), {f"case[{number}]" for number in range(12)}),
        ("9", ("test_never.py::test_large",), {"large"}),
    ],
)
def test_chosen(tmp_path: Path, day: str, words: tuple[str, ...], ran: set[str]) -> None:
    said = run(tmp_path, "--collect-only", *words, day=day)
    found = {line.partition("::test_")[2] for line in said.splitlines() if "::" in line}
    assert found == ran, said


def test_a_suites_result_and_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "--nightly", "kills", "--junitxml", "kills.xml")
    monkeypatch.setattr(nightly, "RESULTS", tmp_path)
    ended, when, commit = nightly.last_result("kills")
    assert ended == "1 passed, 1 failures in 0 min"
    assert when
    assert commit
    nightly.main(["kills"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| one     | yes               |",
        "| two     | failure           |",
    ]
    assert nightly.last_result("soak")[0] == "never run here"


def run(folder: Path, *words: str, day: str = "1") -> str:
    for name, text in FILES.items():
        (folder / name).write_text("import pytest\n" + textwrap.dedent(text))
    argv = [sys.executable, "-m", "pytest", "-p", "tests.nightly", "-q", *words]
    env = {**os.environ, "TRAINBENCH_DAY": day, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_schedule_runs_every_suite() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    suite = workflow["jobs"]["test"]["strategy"]["matrix"]["suite"]
    assert json.loads(suite.partition("'schedule' && '")[2].partition("'")[0]) == [*nightly.SUITES]
