"""Commits that delete files or tests name them: tools/removals on real repositories."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "removals"
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(*argv: str, folder: Path) -> str:
    done = subprocess.run(
        ["git", *WHO, *argv], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git("add", "--all", folder=folder)
    git("commit", "-q", "--allow-empty", "-m", message, folder=folder)
    return git("rev-parse", "HEAD", folder=folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git("init", "-q", "-b", "main", ".", folder=tmp_path)
    for name, text in {
        "runner/speed.py": "".join(f"LINE_{number} = {number}\n" for number in range(20)),
        "tests/test_speed.py": "def test_a() -> None: ...\n\n\ndef test_b() -> None: ...\n",
        "tests/test_other.py": "def test_a() -> None: ...\n",
        "docs/speed.md": "Speed\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    commit(tmp_path, "First")
    return tmp_path


def removals(folder: Path, *argv: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(TOOL), *argv], cwd=folder, check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_a_deleted_file_has_to_be_named(repository: Path) -> None:
    base = git("rev-parse", "HEAD", folder=repository)
    (repository / "runner/speed.py").unlink()
    commit(repository, "Less code")
    code, text = removals(repository, base)
    assert code == 1
    assert f"runner/speed.py is deleted since {base[:9]}" in text
    commit(repository, "Say so\n\nRemoves: runner/speed.py: nobody reads it")
    assert removals(repository, base)[0] == 0


@pytest.mark.parametrize(
    "line", ["tests/test_speed.py::test_b: why", "tests/test_speed.py: why", "tests/: why"]
)
def test_a_deleted_test_is_named_by_itself_its_file_or_its_folder(
    repository: Path, line: str
) -> None:
    base = git("rev-parse", "HEAD", folder=repository)
    (repository / "tests/test_speed.py").write_text("def test_a() -> None: ...\n")
    commit(repository, "One test less")
    code, text = removals(repository, base)
    assert (code, "tests/test_speed.py::test_b is deleted" in text) == (1, True)
    assert "test_a" not in text
    commit(repository, f"x\n\nRemoves: {line}")
    assert removals(repository, base)[0] == 0


def test_one_of_two_tests_of_one_name_is_missed(repository: Path) -> None:
    base = git("rev-parse", "HEAD", folder=repository)
    (repository / "tests/test_other.py").write_text("")
    commit(repository, "Empty")
    assert "tests/test_other.py::test_a is deleted" in removals(repository, base)[1]


def test_renamed_files_moved_tests_and_documents_are_no_removals(repository: Path) -> None:
    base = git("rev-parse", "HEAD", folder=repository)
    git("mv", "runner/speed.py", "runner/rate.py", folder=repository)
    git("mv", "tests/test_other.py", "tests/test_third.py", folder=repository)
    git("rm", "-q", "docs/speed.md", folder=repository)
    (repository / "tests/test_speed.py").write_text("def test_b() -> None: ...\n")
    (repository / "tests/test_fourth.py").write_text("def test_a() -> None: ...\n")
    commit(repository, "Moved")
    assert removals(repository, base) == (0, "")


def test_a_merge_that_loses_the_others_tests_is_found(repository: Path) -> None:
    git("switch", "-q", "-c", "mine", folder=repository)
    commit(repository, "Mine")
    git("switch", "-q", "main", folder=repository)
    (repository / "tests/test_new.py").write_text("def test_new() -> None: ...\n")
    theirs = commit(repository, "Theirs")
    git("switch", "-q", "mine", folder=repository)
    git("merge", "-q", "-s", "ours", "-m", "Merge", "main", folder=repository)
    code, text = removals(repository, "main")
    assert code == 1
    assert f"tests/test_new.py is deleted since {theirs[:9]}" in text


def test_without_a_base_it_says_so(repository: Path) -> None:
    code, text = removals(repository)
    assert code == 0
    assert "not checked" in text


def test_the_base_is_where_the_branch_left_origin(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git("clone", "-q", str(repository), str(clone), folder=tmp_path)
    (clone / "tests/test_other.py").unlink()
    commit(clone, "Fewer")
    code, text = removals(clone)
    assert code == 1
    assert "tests/test_other.py is deleted" in text
