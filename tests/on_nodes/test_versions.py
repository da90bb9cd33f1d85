"""`setup --matrix`, `ci` and `bisect` on a real node: real git, real builds, killed and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runner.folder import names
from tests.cluster.fixtures import Group, RealNodes
from tests.conftest import ROOT
from tests.on_nodes.small_trainer import (
    commit,
    commits_of,
    matrix,
    new_repository,
    variables,
    waiting,
)

pytestmark = pytest.mark.cluster
FOLDER = "/opt/trainbench-versions"
SLOW, BROKEN, COMMITS = 4, 2, 6
SETUP = """from setuptools import setup
setup(name="trainer", version="NUMBER", py_modules=["train"])
"""
MATRIX = matrix(
    {"source": {"repository": ".", "install": "copy"}}, ["python3", "-m", "train"], warmup_iters=5
)


class Trainer:
    """A trainer's repository: commit SLOW takes twice as long, commit BROKEN does not build.

    Its steps are a timer: those that compute differ by a factor of two on a shared machine.
    """

    def __init__(self, folder: Path, group: Group, runs: Path) -> None:
        self.folder, self.group, self.runs = folder, group, runs
        new_repository(folder, MATRIX)
        for number in range(COMMITS):
            milliseconds = 10 if number < SLOW else 20
            broken = "def (\n" if number == BROKEN else ""
            files = {
                "train.py": waiting(milliseconds, noise=0.01, steps=60),
                "setup.py": broken + SETUP.replace("NUMBER", str(number)),
            }
            commit(folder, number, files)
        self.commits = commits_of(folder)

    def argv(self, command: str, *words: str) -> list[str]:
        where = ["-i", str(self.group.inventory), "--runs", str(self.runs)]
        return [*(sys.executable, "-m", "runner", command), *words, *where]

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = self.argv(command, *words)
        return subprocess.run(argv, capture_output=True, text=True, timeout=280)

    def killed(self, command: str, *words: str, after: int) -> None:
        """Kill the command once that many runs have ended."""
        with subprocess.Popen(
            self.argv(command, *words),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            end = time.monotonic() + 200
            while len(self.ended()) < after and time.monotonic() < end:
                assert process.poll() is None
                time.sleep(0.1)
            os.kill(process.pid, signal.SIGKILL)
        assert len(self.ended()) >= after

    def ended(self) -> set[Path]:
        return set(self.runs.glob(f"*/*/repeat*/attempt*/{names.OUTCOME}"))


@pytest.fixture
def trainer(real_nodes: RealNodes, tmp_path: Path) -> Iterator[Trainer]:
    group = real_nodes(1, variables=variables(FOLDER))
    folder = ROOT / "build" / f"versions-{uuid.uuid4().hex[:8]}"  # test nodes hide /tmp
    yield Trainer(folder, group, tmp_path / "runs")
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    group.nodes[0].exec(["rm", "-rf", FOLDER], check=True)


@pytest.mark.nightly("nodes", by_day="minutes")
@pytest.mark.timeout(900)
def test_ci_is_killed_goes_on_and_says_worse(trainer: Trainer, tmp_path: Path) -> None:
    good, bad = trainer.commits[SLOW - 1], trainer.commits[SLOW]
    words = (str(trainer.folder / "perf.yaml"), "--base", good, "--head", bad, "--pairs", "4")
    trainer.killed("ci", *words, after=3)
    before = trainer.ended()
    comment, junit = tmp_path / "comment.md", tmp_path / "ci.xml"
    files = ("--format", "json", "--markdown", str(comment), "--junit", str(junit))
    done = trainer.run("ci", *words, *files)
    assert done.returncode == 1, done
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "worse"
    comparison = answer["detail"]["comparison"]
    (cell,) = comparison["cells"]
    assert cell["measures"]["samples_per_s"]["difference_percent"] == pytest.approx(-50, abs=15)
    assert before <= trainer.ended()
    assert len(trainer.ended()) <= 9  # one that was killed may have been made again
    facts = {one["key"]: (one["a"], one["b"]) for one in comparison["environment"]}
    assert facts["source"] == (good[:12], bad[:12])
    assert facts["trainer"] == (str(SLOW - 1), str(SLOW))
    assert "**perf," in comment.read_text()
    assert 'failures="1"' in junit.read_text()


@pytest.mark.nightly("nodes", by_day="minutes")
@pytest.mark.timeout(900)
def test_bisect_is_killed_goes_on_and_skips_what_does_not_build(trainer: Trainer) -> None:
    words = (str(trainer.folder / "perf.yaml"), "--good", "main~5", "--bad", "main")
    trainer.killed("bisect", *words, after=3)
    before = trainer.ended()
    done = trainer.run("bisect", *words, "--format", "json")
    assert done.returncode == 0, done
    held = json.loads(done.stdout)
    assert held["verdict"] == "found"
    versions = held["detail"]["versions"]
    assert (held["detail"]["earliest"], held["detail"]["final"]) == (SLOW, SLOW)
    assert versions[SLOW]["subject"] == f"change {SLOW}"
    assert before <= trainer.ended()
    if versions[BROKEN]["skipped"]:
        assert versions[BROKEN]["skipped"].startswith("it cannot be built")
    said = trainer.run("bisect", *words, "--answer")
    assert f'"change {SLOW}"' in said.stdout


@pytest.mark.nightly("nodes", by_day="minutes")
@pytest.mark.timeout(900)
def test_a_version_that_does_not_build_is_named(trainer: Trainer) -> None:
    broken = trainer.commits[BROKEN]
    file = str(trainer.folder / "perf.yaml")
    done = trainer.run("ci", file, "--base", "main", "--head", broken, "--pairs", "2")
    assert done.returncode == 4
    assert f"trainer-{broken[:12]} could not be built" in done.stdout
    assert "SyntaxError" in done.stdout
    assert not trainer.ended()
    source = {"repository": ".", "install": "copy", "commit": trainer.commits[0]}
    matrix = {**MATRIX, "pins": {"trainer": {"source": source}}}
    (trainer.folder / "two.yaml").write_text(yaml.safe_dump(matrix))
    asked = trainer.run("bench", str(trainer.folder / "two.yaml"))
    assert "setup --matrix FILE" in asked.stderr
    built = trainer.run("setup", "--matrix", str(trainer.folder / "two.yaml"))
    assert built.returncode == 0, built
    assert trainer.run("bench", str(trainer.folder / "two.yaml")).returncode == 0
