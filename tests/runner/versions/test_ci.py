"""`ci`: which runs take turns, what is called worse, how often equal versions are."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.__main__ import parser
from runner.base.errors import UserError
from runner.commands import ci as command
from runner.study.running import Limits, Session
from runner.study.showing import to_junit, to_text
from runner.study.study import Answer
from runner.versions.ci_study import CiStudy
from runner.versions.version import Version, pin_set
from tests.conftest import ROOT
from tests.documented_schemas import fits
from tests.runner.builders import small_cluster
from tests.runner.versions.pretended import (
    FakeBuilder,
    PretendedVersions,
    git,
    matrix,
    repository,
    view,
)

OLD, NEW = "a" * 40, "b" * 40


def commit(digits: str, label: str) -> Version:
    return Version("commit", digits, label)


class Ci:
    """A ci of pretended nodes: `slower` is the new version's share, `noise` of each run."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.slower, self.noise, self.drift = 1.0, 0.01, 0.0
        self.fails: set[str] = set()
        self.random = random.Random(7)
        self.nodes = PretendedVersions(self.takes)
        self.builder = FakeBuilder(Path("inventory/rack"), folder, folder)
        self.folder, self.options = folder, options

    def takes(self, pin: str, number: int) -> float | None:
        if pin[-12:] in self.fails:
            return None
        share = self.slower if pin.endswith(NEW[:12]) else 1.0
        return 10 * share * (1 + self.drift * number) * self.random.gauss(1, self.noise)

    def session(self, **more: Any) -> Session:
        held = {"head": commit(NEW, "HEAD"), "base": commit(OLD, "main"), **self.options, **more}
        study, engine = CiStudy(matrix(), **held), lambda *_: self.nodes
        limits = Limits(retry=1)
        return Session(study, small_cluster(1), self.folder, engine, self.builder.build, limits)

    def go(self, **more: Any) -> Answer:
        return self.session(**more).run(view())[0]


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


@pytest.mark.parametrize(
    ("slower", "noise", "verdict"),
    [(1.1, 0.01, "worse"), (0.9, 0.01, "better"), (1.0, 0.003, "same"), (1.0, 0.2, "cannot_tell")],
)
def test_what_is_slower_beyond_chance_is_worse(
    ci: Ci, slower: float, noise: float, verdict: str
) -> None:
    ci.slower, ci.noise = slower, noise
    result = ci.go()
    assert result.verdict == verdict
    for form in ("table", "markdown", "json"):
        assert verdict.partition("_")[0] in to_text(result, form, 100)
    fits(json.loads(to_text(result, "json", 100)), "answer")
    assert f'failures="{int(verdict == "worse")}"' in to_junit(result)


def test_a_machine_that_grows_slower_does_so_for_both(ci: Ci) -> None:
    ci.drift, ci.noise = 0.02, 0.001
    result = ci.go()
    assert result.verdict == "same"
    (cell,) = result.detail["comparison"]["cells"]
    assert abs(cell["measures"]["samples_per_s"]["difference_percent"]) < 1


def test_a_run_that_fails_is_a_failure_and_no_comparison(ci: Ci) -> None:
    ci.fails = {NEW[:12]}
    result = ci.go(pairs=2)
    assert (result.verdict, result.exit_code) == ("failed", 4)
    assert "command of HEAD" in result.notes[0]
    fits(json.loads(to_text(result, "json", 100)), "answer")
    assert '<error message="command of HEAD' in to_junit(result)


def test_a_version_that_cannot_be_built_is_named_and_nothing_runs(ci: Ci) -> None:
    ci.builder.broken = lambda pin: pin.endswith(NEW[:12])
    result = ci.go()
    assert result.verdict == "failed"
    assert f"trainer-{NEW[:12]} could not be built: n1: error" in result.notes[0]
    assert not ci.nodes.ran


def test_it_goes_on_where_it_was_stopped(ci: Ci) -> None:
    def stop(number: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    ci.nodes.before = stop
    with pytest.raises(KeyboardInterrupt):
        ci.go(pairs=3)
    assert len(ci.nodes.ran) == 3
    ci.nodes.before = lambda _: None
    assert ci.go(pairs=3).verdict != "failed"
    assert len(ci.nodes.ran) == 6


def test_the_same_version_twice_is_refused(ci: Ci) -> None:
    with pytest.raises(UserError, match="are the same version"):
        ci.go(head=commit(OLD, "HEAD"))


def test_a_package_is_changed_where_it_is_pinned() -> None:
    study = CiStudy(
        matrix(),
        head=Version("package", "beta==3.0", "beta==3.0"),
        base=Version("package", "beta==2.0", "beta==2.0"),
    )
    with pytest.raises(UserError, match="its source names no commit"):
        _ = study.turns
    study.asked.pins["trainer"]["source"]["commit"] = OLD
    ((old, new),) = study.turns
    assert (old.cell.pin, new.cell.pin) == ("trainer-beta-2.0", "trainer-beta-3.0")
    assert new.pin_set is not None
    assert new.pin_set["requirements"] == ["alpha==1.0", "beta==3.0"]


def test_pin_sets_are_versions_as_they_are() -> None:
    ((old, new),) = CiStudy(matrix(), head=pin_set("pin=new"), base=pin_set("pin=old")).turns
    assert (old.cell.pin, new.cell.pin) == ("old", "new")


def test_equal_versions_are_called_worse_once_in_a_hundred(tmp_path: Path) -> None:
    """Whole campaigns of pretended runs at threshold 0, where chance alone decides."""
    alarms = 0
    for number in range(20):
        ci = Ci(tmp_path / str(number), limits={"samples_per_s": 0.0})
        ci.random = random.Random(number)
        ci.noise = 0.03
        alarms += ci.go(pairs=4).verdict == "worse"
    assert alarms <= 1


# --- the command line -----------------------------------------------------------------------------


def session_of(folder: Path, *words: str) -> tuple[CiStudy, str]:
    chosen = parser().parse_args(["ci", str(folder / "perf.yaml"), "--runs", str(folder), *words])
    session = command._session(chosen, view())
    assert isinstance(session.study, CiStudy)
    return session.study, session.campaign.name


def test_revisions_are_of_the_repository_that_the_matrix_lies_in(tmp_path: Path) -> None:
    digits = repository(tmp_path, 3)
    git(tmp_path, "tag", "v1", digits[0])
    study, name = session_of(tmp_path, "--base", "v1")
    assert [one.value for one in study.versions] == [digits[0], digits[2]]
    assert study.head.title == f'HEAD {digits[2][:12]} "change 2"'
    assert name == f"perf-ci-{digits[0][:12]}-{digits[2][:12]}-local"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--base", "nothing"], "has no commit 'nothing'; fetch it first"),
        (["--base", "--output=x"], "expected one argument"),
        (["--base", "HEAD^{/x}"], "has no commit"),
        (["--base", "torch==*"], "is not one version; write NAME==VERSION"),
        (["--base", "pin=../x"], "pin="),
        (["--base", "HEAD", "--threshold", "speed=1%"], "there is no quantity 'speed'"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repository(tmp_path, 1)
    with pytest.raises((UserError, SystemExit)) as refused:
        session_of(tmp_path, *words)
    assert told in f"{refused.value} {capsys.readouterr().err}"


def test_the_documented_pipelines_run_nothing_of_a_fork() -> None:
    """Both files were checked with check-jsonschema (vendor.github-workflows, vendor.gitlab-ci)."""
    page = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    files = re.findall(r"<!-- file: [^\n]* -->\n```yaml\n(.*?)```", page, re.DOTALL)
    github, gitlab = map(yaml.safe_load, files)
    assert set(github[True]) == {"pull_request"}  # YAML 1.1 reads `on` as true
    assert github["permissions"] == {}
    job = github["jobs"]["ci"]
    assert job["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert job["permissions"] == {"contents": "read"}
    assert not any("${{" in step.get("run", "") for step in job["steps"])
    comment = github["jobs"]["comment"]
    assert comment["needs"] == "ci"
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"])
    (rule,) = gitlab["perf"]["rules"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in rule["if"]
