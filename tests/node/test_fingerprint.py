"""node/fingerprint.py: what a folder and a Python are, whatever lies in them."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from node import checkout, fingerprint, program_files
from node.kinds import FINGERPRINT

TRAINER = {
    "train.py": "print(1)\n",
    "conf/deep/a.yaml": "lr: 1\n",
    "model/net.cu": "x",
    "x.json": "{}",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def git(folder: Path, *words: str) -> str:
    """The user's own git, with an identity and without the settings of this machine."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "protocol.file.allow=always",
    )
    argv = ["git", *who, *words]
    done = subprocess.run(argv, cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    """A checkout of one commit, clean."""
    folder = write(tmp_path / "my trainer", {**TRAINER, ".gitignore": "ignored/\n*.log\n"})
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def said(folder: Path) -> dict[str, str]:
    (found,) = fingerprint.fingerprints({"f": str(folder)}, {}).values()
    return dict(FINGERPRINT.check(found, "f"))


def problem(folder: Path) -> str:
    (words,) = said(folder).values()
    assert words.isprintable()
    return words


# --- folders without git --------------------------------------------------------------------------


def test_programs_and_settings_count_wherever_they_are_read_from(tmp_path: Path) -> None:
    write(tmp_path, TRAINER)
    before = said(tmp_path)
    assert set(before) == {"checksum"}
    for name in TRAINER:
        was = (tmp_path / name).read_text()
        write(tmp_path, {name: was + "#"})
        assert said(tmp_path) != before, name
        write(tmp_path, {name: was})
        assert said(tmp_path) == before
    os.rename(tmp_path / "train.py", tmp_path / "other.py")
    assert said(tmp_path) != before


def test_what_runs_write_does_not_count(tmp_path: Path) -> None:
    before = said(write(tmp_path, TRAINER))
    results = {
        **{"log.txt": "1", "ckpt.pt": "1", "events.out.tfevents.1": "1", "a.log": "1"},
        **{f"{name}/train.py": "1" for name in ("out", "out-shakespeare", "outputs", "runs")},
        **{f"{name}/sub/c.json": "{}" for name in ("wandb", "checkpoints", "ckpt_10", "results")},
        **{"__pycache__/a.py": "1", ".hydra/config.yaml": "1", "metrics/step.json": "{}"},
        **{"venv/pyvenv.cfg": "", "venv/lib/x.py": "1", "model/__pycache__/net.py": "1"},
    }
    assert said(write(tmp_path, results)) == before


def test_folders_with_odd_things_have_a_checksum(tmp_path: Path) -> None:
    write(tmp_path / "t", TRAINER)
    before = said(tmp_path / "t")
    os.mkfifo(tmp_path / "t" / "pipe.py")
    os.symlink("nowhere", tmp_path / "t" / "dangling.py")
    os.symlink(".", tmp_path / "t" / "circle")
    os.symlink("loop.py", tmp_path / "t" / "loop.py")
    (tmp_path / "t" / "d.py").mkdir()
    Path(os.fsdecode(bytes(tmp_path / "t") + b"/\xff\n.py")).write_text("x")
    after = said(tmp_path / "t")
    assert after != before
    assert after == said(tmp_path / "t")


def test_a_link_to_a_program_counts_by_what_it_leads_to(tmp_path: Path) -> None:
    write(tmp_path, {"t/x.txt": "", "common/train.py": "1"})
    os.symlink("../common/train.py", tmp_path / "t" / "train.py")
    before = said(tmp_path / "t")
    write(tmp_path, {"common/train.py": "2"})
    assert said(tmp_path / "t") != before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_no_fault(tmp_path: Path) -> None:
    write(tmp_path, {**TRAINER, "secret/a.py": "1"})
    (tmp_path / "secret").chmod(0)
    assert set(said(tmp_path)) == {"checksum"}
    (tmp_path / "secret").chmod(0o700)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("MOST_ENTRIES", 3, "more than 3 files and folders; put it under git"),
        ("MOST_FILES", 3, "more than 3 program and settings files; put it under git"),
        ("MOST_BYTES", 10, "more than 0 MiB of programs and settings; put it under git"),
        ("LIMIT_S", -1.0, "more than can be looked at in -1 s; put it under git"),
    ],
)
def test_a_folder_too_large_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, words: str
) -> None:
    monkeypatch.setattr(program_files, limit, value)
    assert words in problem(write(tmp_path, TRAINER))


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"f": ""})
    assert problem(tmp_path / "no\x1b[2J").endswith(
        "is not there; bring the trainer there, or name another cwd"
    )
    assert "is not a folder" in problem(tmp_path / "f")


# --- checkouts ------------------------------------------------------------------------------------


def test_a_clean_checkout_is_its_commit(trainer: Path) -> None:
    clean = {"commit": git(trainer, "rev-parse", "HEAD"), "edits": ""}
    assert said(trainer) == clean
    assert said(trainer / "model") == clean
    write(trainer, {"ignored/a.py": "1", "a.log": "1", "out/b.py": "1", "c.txt": "1"})
    (trainer / "train.py").touch()
    (trainer / "train.py").chmod(0o755)
    assert said(trainer) == clean
    git(trainer, "clone", "-q", str(trainer), str(trainer.parent / "again"))
    assert said(trainer.parent / "again") == clean


def test_edits_are_told_from_each_other(trainer: Path) -> None:
    commit = said(trainer)["commit"]
    edits = []
    for change in (
        lambda: write(trainer, {"train.py": "print(2)\n"}),
        lambda: write(trainer, {"train.py": "print(3)\n"}),
        lambda: write(trainer, {"new name.py": "1"}),
        lambda: os.unlink(trainer / "x.json"),
        lambda: git(trainer, "add", "--all"),  # what is staged differs no more, and no less
    ):
        change()
        found = said(trainer)
        assert found["commit"] == commit
        edits.append(found["edits"])
    assert len({*edits, ""}) == 5
    assert edits[3] == edits[4]
    git(trainer, "reset", "-q", "--hard")
    git(trainer, "clean", "-qfd")
    assert said(trainer) == {"commit": commit, "edits": ""}


def test_theirs_is_left_as_it_is(trainer: Path) -> None:
    write(trainer, {"train.py": "print(2)\n", "b.py": ""})
    before = {path: path.stat().st_mtime_ns for path in trainer.rglob("*")}
    said(trainer)
    assert {path: path.stat().st_mtime_ns for path in trainer.rglob("*")} == before


def test_nothing_that_a_repository_names_is_run(trainer: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    bad.chmod(0o755)
    write(trainer, {"train.py": "print(2)\n", ".gitattributes": "* filter=bad diff=bad\n"})
    for name in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        os.symlink(bad, trainer / ".git" / "hooks" / name)
    for key in (
        *("core.fsmonitor", "core.pager", "diff.external", "diff.bad.textconv", "core.editor"),
        *("diff.bad.command", "filter.bad.clean", "filter.bad.smudge", "filter.bad.process"),
        *("alias.status", "alias.rev-parse", "core.sshCommand", "credential.helper", "gpg.program"),
        *("interactive.diffFilter", "core.alternateRefsCommand", "uploadpack.packObjectsHook"),
    ):
        git(trainer, "config", key, str(bad))
    git(trainer, "config", "core.hooksPath", str(trainer / ".git" / "hooks"))
    found = said(trainer)
    assert found["edits"]
    assert not (tmp_path / "ran").exists()


def test_a_partial_clone_fetches_nothing(trainer: Path, tmp_path: Path) -> None:
    """An object that is not there would be fetched by a program that the repository names."""
    ran = tmp_path / "ran"
    bad = tmp_path / "bad.sh"
    bad.write_text(f"#!/bin/sh\ntouch {ran}\n")
    bad.chmod(0o755)
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", str(tmp_path)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(bad)),
    ):
        git(trainer, "config", key, value)
    head = git(trainer, "rev-parse", "HEAD").strip()
    (trainer / ".git" / "objects" / head[:2] / head[2:]).unlink()
    assert "git cannot say what" in problem(trainer)
    assert not ran.exists()


def test_a_line_break_in_a_checkouts_path_is_one_sentence(trainer: Path, tmp_path: Path) -> None:
    """Also where a link leads there."""
    place = tmp_path / "a\nb"
    place.mkdir()
    trainer.rename(place / "trainer")
    link = tmp_path / "link"
    link.symlink_to(place / "trainer")
    assert "a line break" in problem(link)


def test_files_that_git_lfs_keeps_are_no_edits(trainer: Path) -> None:
    write(trainer, {".gitattributes": "*.bin filter=lfs\n", "w.bin": "version https://git-lfs\n"})
    git(trainer, "add", ".")
    git(trainer, "commit", "-qm", "pointer")
    write(trainer, {"w.bin": "the weights\n"})
    assert said(trainer)["edits"] == ""


def test_line_ends_that_the_repository_asks_for_are_no_edits(trainer: Path) -> None:
    write(trainer, {".gitattributes": "*.sh text eol=crlf\n", "a.sh": "true\n"})
    git(trainer, "add", ".")
    git(trainer, "commit", "-qm", "crlf")
    (trainer / "a.sh").unlink()
    git(trainer, "checkout", "a.sh")
    assert (trainer / "a.sh").read_bytes() == b"true\r\n"
    assert said(trainer)["edits"] == ""


def test_submodules_and_repositories_within(trainer: Path, tmp_path: Path) -> None:
    library = write(tmp_path / "library", {"lib.py": "1\n"})
    git(library, "init", "-q")
    git(library, "add", ".")
    git(library, "commit", "-qm", "first")
    git(trainer, "submodule", "--quiet", "add", str(library), "lib")
    git(trainer, "commit", "-qm", "with a library")
    clean = said(trainer)
    assert clean["edits"] == ""
    write(trainer, {"lib/lib.py": "2\n"})
    edited = said(trainer)["edits"]
    assert edited
    git(trainer / "lib", "commit", "-qam", "second")
    assert said(trainer)["edits"] not in ("", edited)
    git(trainer / "lib", "reset", "-q", "--hard", "HEAD~1")
    assert said(trainer) == clean
    git(trainer, "clone", "-q", str(library), "nested")
    nested = said(trainer)["edits"]
    assert nested
    write(trainer, {"nested/lib.py": "3\n"})
    assert said(trainer)["edits"] not in ("", nested)


def test_a_linked_worktree_is_a_checkout(trainer: Path, tmp_path: Path) -> None:
    git(trainer, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert said(tmp_path / "linked") == said(trainer)


def test_what_git_knows_nothing_of_is_a_plain_folder(trainer: Path, tmp_path: Path) -> None:
    write(trainer, {"ignored/mine/train.py": "1"})
    assert set(said(trainer / "ignored" / "mine")) == {"checksum"}
    empty = write(tmp_path / "empty", TRAINER)
    git(empty, "init", "-q")
    assert set(said(empty)) == {"checksum"}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda git: (git / "HEAD").unlink(), "git cannot say what"),
        (lambda git: (git / "config").write_text("[core"), "bad config line"),
        (lambda git: [path.unlink() for path in git.glob("objects/*/*")], "fix the checkout"),
    ],
)
def test_a_broken_repository_is_one_sentence(
    trainer: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(trainer / ".git")
    found = said(trainer)
    if "checksum" not in found:  # git takes one without its commit for an empty one
        assert words in found["problem"]
        assert "Traceback" not in found["problem"]


def test_another_users_checkout_names_the_cure(
    trainer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(trainer))
    if os.geteuid() == 0:
        os.chown(trainer, 12345, 12345)
        os.chown(trainer / ".git", 12345, 12345)
        words = problem(trainer)
    else:
        git_said = f"fatal: detected dubious ownership in repository at '{trainer}'\nTo add\n"
        words = checkout._refusal(str(trainer), git_said)
    assert f"git config --global --add safe.directory {trainer}" in words


def test_a_git_that_hangs_or_lacks_is_said(trainer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = trainer.parent / "bin" / "git"
    write(trainer.parent, {"bin/git": "#!/bin/sh\nexec sleep 60\n"})
    slow.chmod(0o755)
    monkeypatch.setattr(program_files, "LIMIT_S", 0.2)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
    assert "name in .gitignore what runs write" in problem(trainer)
    monkeypatch.setattr(program_files, "LIMIT_S", 60.0)
    monkeypatch.setenv("PATH", str(trainer.parent))
    assert problem(trainer).endswith("git is not on this node; install the package git")


# --- interpreters ---------------------------------------------------------------------------------


def python_said(path: str) -> dict[str, str]:
    (found,) = fingerprint.fingerprints({}, {"p": path}).values()
    return dict(FINGERPRINT.check(found, "p"))


def test_a_python_is_its_version_and_packages(tmp_path: Path) -> None:
    base = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]  # CPython has it
    subprocess.run([base, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / "bin" / "python3")
    before = python_said(python)
    assert before["python"] == ".".join(map(str, sys.version_info[:3]))
    (packages,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    write(packages, {"alpha-1.0.dist-info/METADATA": "", "module.py": "1"})
    one = python_said(python)
    os.rename(packages / "alpha-1.0.dist-info", packages / "alpha-1.1.dist-info")
    assert len({before["packages"], one["packages"], python_said(python)["packages"]}) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh\necho hello\n", "does not answer as a Python: it said nothing of itself"),
        ("#!/bin/sh\necho 'no \x1b[2Jgood' >&2; exit 3\n", "as a Python: no good; name one"),
        ('#!/bin/sh\necho \'{"python": "3", "packages": "x"}\'\n', "does not answer as a Python"),
        ("#!/bin/sh\necho '[' ; yes | head -c 9000000\n", "does not answer as a Python"),
        ("#!/nowhere/python\n", "cannot be started: No such file"),
        ("", "cannot be started: Exec format error"),
        ("#!/bin/sh\nexec sleep 60\n", "did not say what it is within"),
    ],
)
def test_what_is_no_python_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(fingerprint, "PYTHON_S", 2.0)
    program = write(tmp_path, {"python": text}) / "python"
    program.chmod(0o755)
    found = python_said(str(program))
    assert words in found["problem"]
    assert found["problem"].isprintable()


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be started: No such file" in python_said(str(tmp_path / "no"))["problem"]
    assert "cannot be started" in python_said("/no\x00")["problem"]
    assert "cannot be started: Permission denied" in python_said(str(tmp_path))["problem"]


# --- what does not count, and what is named -------------------------------------------------------


@pytest.mark.parametrize("tracked", [True, False])
def test_a_matrix_beside_a_checkouts_trainer_does_not_count(trainer: Path, tracked: bool) -> None:
    def told() -> tuple[dict[str, str], dict[str, str]]:
        matrix = hashlib.sha256((trainer / "m.yaml").read_bytes()).hexdigest()
        files: dict[str, dict[str, str]] = {}
        (found,) = fingerprint.fingerprints({"f": str(trainer)}, {}, [matrix], files).values()
        return found, files["f"]

    write(trainer, {"m.yaml": "a: 1\n"})
    if tracked:
        git(trainer, "add", "m.yaml")
        git(trainer, "commit", "-qm", "a matrix")
    before, files = told()
    assert (before["edits"], files) == ("", {})
    write(trainer, {"m.yaml": "a: [1, 2]\n"})
    assert told() == (before, {})
    write(trainer, {"train.py": "print(3)\n"})
    after, files = told()
    assert after["edits"] != ""
    assert list(files) == ["train.py"]
