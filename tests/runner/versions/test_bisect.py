"""`bisect`: the commit is found, broken ones are skipped, it goes on where it was stopped."""

import json
import random
from pathlib import Path

import pytest

from runner.__main__ import parser
from runner.base.errors import UserError
from runner.commands import bisect as command
from runner.study.running import Session
from runner.study.showing import to_text
from runner.study.study import Answer
from runner.versions.bisect_study import FOUND, BisectStudy
from tests.documented_schemas import fits
from tests.runner.versions.pretended import FakeBuilder, PretendedVersions, git, repository, view

COMMITS = 13


class Bisection:
    """A bisection on pretended nodes over real commits; commit `slow` and later take 4 % more."""

    def __init__(self, folder: Path, slow: int | None) -> None:
        self.folder, self.slow = folder, slow
        self.repository = folder / "trainer"
        self.repository.mkdir()
        self.commits = repository(self.repository, COMMITS)
        self.random = random.Random(3)
        self.noise = 0.005
        self.fails: set[int] = set()
        self.nodes = PretendedVersions(self.takes)
        self.broken: set[int] = set()
        self.builders: list[FakeBuilder] = []

    def place(self, pin: str) -> int:
        return next(at for at, one in enumerate(self.commits) if pin.endswith(one[:12]))

    def takes(self, pin: str, number: int) -> float | None:
        place = self.place(pin)
        if place in self.fails:
            return None
        share = 1.04 if self.slow is not None and place >= self.slow else 1.0
        return 10 * share * self.random.gauss(1, self.noise)

    def session(self, *words: str) -> Session:
        path = str(self.repository / "perf.yaml")
        ends = ["--good", self.commits[0], "--bad", "main"]
        given = ["bisect", path, "--runs", str(self.folder / "runs"), *ends, *words]
        session = command._session(parser().parse_args(given), view())
        session.engine = lambda *_: self.nodes
        builder = FakeBuilder(Path("inventory/local"), self.folder, self.folder)
        builder.broken = lambda pin: self.place(pin) in self.broken
        self.builders.append(builder)
        session.build = builder.build
        return session

    def go(self, *words: str) -> Answer:
        return self.session(*words).run(view())[0]


@pytest.fixture
def slow_at_7(tmp_path: Path) -> Bisection:
    return Bisection(tmp_path, 7)


def test_the_commit_is_found_and_told(slow_at_7: Bisection) -> None:
    held = slow_at_7.go()
    assert (held.verdict, held.detail["earliest"], held.detail["final"]) == (FOUND, 7, 7)
    assert held.detail["probability"] >= 0.99
    assert held.detail["ends"]["percent"] == pytest.approx(-3.85, abs=1.0)
    built = {pin for builder in slow_at_7.builders for asked in builder.asked for pin in asked}
    assert len(built) == len(held.tables[0].rows) < COMMITS - 3
    text = to_text(held, "table")
    assert '"change 7"' in text.splitlines()[0]
    assert "before it:" in text
    assert '"change 6"' in text
    document = json.loads(to_text(held, "json"))
    fits(document, "answer")
    assert document["verdict"] == FOUND
    assert to_text(held, "markdown").startswith("**samples/s")


def test_commits_that_do_not_build_or_run_are_skipped(slow_at_7: Bisection) -> None:
    slow_at_7.broken, slow_at_7.fails = {6, 7}, {5}
    held = slow_at_7.go()
    assert (held.verdict, held.detail["final"]) == (FOUND, 8)
    assert held.detail["earliest"] in (5, 6)
    skipped = [one["skipped"] for one in held.detail["versions"]]
    if held.detail["earliest"] == 5:
        assert skipped[5].startswith("its runs fail: ")
    assert skipped[7].startswith("it cannot be built: n1: error: expected ';'")
    text = to_text(held, "table")
    assert "one of" in text
    assert "it cannot be built: n1" in text


def test_a_killed_bisection_goes_on_with_what_ran(slow_at_7: Bisection) -> None:
    def stop(number: int) -> None:
        if number == 9:
            raise KeyboardInterrupt

    slow_at_7.nodes.before = stop
    with pytest.raises(KeyboardInterrupt):
        slow_at_7.go()
    assert len(slow_at_7.session().look().runs) == 9  # four pairs, and one without its second run
    slow_at_7.nodes.before = lambda _: None
    held = slow_at_7.go()
    assert (held.verdict, held.detail["final"]) == (FOUND, 7)
    before = len(slow_at_7.nodes.ran)
    assert slow_at_7.go().to_json() == held.to_json()
    assert len(slow_at_7.nodes.ran) == before


def test_the_most_runs_end_it(slow_at_7: Bisection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.versions.bisect_study.MOST", 8)
    slow_at_7.noise = 0.05
    held = slow_at_7.go()
    assert held.notes[-1].startswith("8 runs were made, and it is not sure yet")
    assert len(slow_at_7.nodes.ran) == 8


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--good", "main", "--bad", "main~3"], "is not an ancestor of"),
        (["--good", "main", "--bad", "main"], "are the same commit"),
        (["--good", "main", "--bad", "a==1.0"], "two revisions of git, or two versions of one"),
        (["--good", "a==1.0", "--bad", "a==2.0", "--versions", "2.0,3.0"], "must be the last"),
        (["--good", "a==1.0", "--bad", "b==2.0"], "two versions of one package"),
    ],
)
def test_bad_versions_are_one_sentence(tmp_path: Path, words: list[str], told: str) -> None:
    repository(tmp_path, 4)
    given = ["bisect", str(tmp_path / "perf.yaml"), *words]
    with pytest.raises(UserError, match=told):
        command._session(parser().parse_args(given), view())


def test_a_merge_is_one_change(tmp_path: Path) -> None:
    commits = repository(tmp_path, 2)
    git(tmp_path, "checkout", "-q", "-b", "side", commits[0])
    (tmp_path / "other.py").write_text("# 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "on the side")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge side", "side")
    given = ["bisect", str(tmp_path / "perf.yaml"), "--good", commits[0], "--bad", "main"]
    study = command._session(parser().parse_args(given), view()).study
    assert isinstance(study, BisectStudy)
    assert [one.subject for one in study.versions] == ["change 0", "change 1", "merge side"]
