"""A cloned trainer's repository and folder are asked, and nothing that they name is run."""

import ast
import subprocess
from pathlib import Path

import pytest

from node.git import GitError, output
from runner.base.errors import UserError
from runner.versions import git_history, package_history
from tests.conftest import ROOT

# Whose working folder is one of ours, or whose modules are to be found in the working folder.
OTHER_FOLDER = {
    "node/env/change.py": "call() starts it in the environment's own folder",
    "node/env/pip.py": "call() starts it in the environment's own folder",
    "node/env/cpu_wheels.py": "it starts in the environment's own folder",
    "node/apex.py": "it starts in / and in the wheel's folder",
    "node/image.py": "it is for inside a container",
    "node/dataset/stage.py": "it starts in the dataset's own folder",
    "node/git.py": "git's own option",
    "node/probe_deep.py": "an option of nccl-tests",
    "node/bootstrap.py": "BOOT takes the working folder off sys.path first",
    "roles/verify/action_plugins/survey.py": "it starts in this project's folder",
    "runner/systems/torch_gpt.py": "a trainer, which starts in its own folder",
    "runner/systems/torchtitan.py": "a trainer, which starts in its own folder",
    "runner/systems/libai.py": "a trainer, which starts in its own folder",
    "runner/systems/common/launchers.py": "a trainer, which starts in its own folder",
}
NO_PYTHON = {"/bin/bash", "bash", "sh", "chronyc"}


def git(folder: Path, *arguments: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    argv = ["git", "-C", str(folder), *name, *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def spoiled(tmp_path: Path) -> tuple[Path, Path]:
    """A repository whose settings name a program, and the file that the program would write."""
    marker, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    program.chmod(0o755)
    folder = tmp_path / "trainer"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    (folder / "train.py").write_text("print()\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    signed = git(folder, "cat-file", "commit", "HEAD")
    head, _, words = signed.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----"
    signed = f"{head}\n{signature}\n\n{words}\n"
    argv = ["git", "-C", str(folder), "hash-object", "-t", "commit", "-w", "--stdin"]
    made = subprocess.run(argv, input=signed, check=True, capture_output=True, text=True)
    git(folder, "update-ref", "HEAD", made.stdout.strip())
    settings = {
        "log.showSignature": "true",
        "gpg.program": str(program),
        "core.fsmonitor": str(program),
        "core.sshCommand": str(program),
        "core.pager": str(program),
        "core.alternateRefsCommand": str(program),
        "protocol.allow": "always",
        "protocol.file.allow": "always",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(tmp_path),
        "remote.origin.uploadpack": str(program),
    }
    for key, value in settings.items():
        git(folder, "config", key, value)
    return folder, marker


def test_a_repository_names_no_program(spoiled: tuple[Path, Path]) -> None:
    folder, marker = spoiled
    assert git_history.repository_of(folder) == folder
    head = git_history.commit_of(folder, "main", "--good")
    assert head.subject == "first"
    with pytest.raises(UserError, match="has no commit"):
        git_history.commit_of(folder, "1" * 40, "--good")
    with pytest.raises(UserError, match="same commit"):
        git_history.between(folder, head, head)
    with pytest.raises(GitError):
        output(str(folder), "cat-file", "-e", "1" * 40)
    assert not marker.exists()


def test_a_folder_gives_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "ran"
    (tmp_path / "pip.py").write_text(f"open({str(marker)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="torch"):
        package_history.between("torch==0.0.1", "torch==0.0.2")
    assert not marker.exists()


def starts(path: Path) -> list[int]:
    """Lines of argument lists in which a Python gets -m or -c without -I before it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
        for option in {"-m", "-c"} & set(words):
            before = words[: words.index(option)]
            if not {"-I", *NO_PYTHON} & set(before) and words != ["-c", "core.fileMode=false"]:
                found.append(node.lineno)
    return found


def test_every_start_of_python_is_away_from_the_users_folder() -> None:
    rooms = ("runner", "node", "plugins", "roles", "playbooks", "trainbench_cluster")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    open_to_it = {str(path.relative_to(ROOT)): starts(path) for path in paths}
    assert {name for name, lines in open_to_it.items() if lines} <= set(OTHER_FOLDER), open_to_it
