"""What a Python says that has nothing installed: one sentence with the cure, exit code 2."""

import subprocess
import sys

import pytest

from runner.base import paths

BARE = [sys.executable, "-S", "-m", "runner"]  # -S: Python without its site-packages


@pytest.mark.parametrize("words", ["bench matrix.yaml --dry-run", "parse README.md", "systems"])
def test_a_command_names_the_cure(words: str) -> None:
    ran = subprocess.run(
        [*BARE, *words.split()], cwd=paths.PROJECT, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: the Python package ")
    assert "bin/activate" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_help_needs_nothing() -> None:
    ran = subprocess.run([*BARE, "--help"], cwd=paths.PROJECT, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
