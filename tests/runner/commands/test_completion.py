"""What the tab key brings: a shell calls the command itself, with what was typed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.base.paths import PROJECT


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("trainbench tea", ["teardown "]),
        ("trainbench bench --format ", ["table", "json"]),
        ("trainbench bench matrices/gpu/speed-t", ["matrices/gpu/speed-two.yaml "]),
    ],
)
def test_words_and_files_are_offered(typed: str, offered: list[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    asked = {
        **{"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_IFS": "\n"},
        **{"_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "COMP_LINE": typed},
        "COMP_POINT": str(len(typed)),
    }
    argv = [sys.executable, "-c", "from runner.__main__ import command; command()"]
    subprocess.run(argv, cwd=PROJECT, env={**os.environ, **asked}, check=True, timeout=60)
    assert sorted(answer.read_text().split("\n")) == sorted(offered)
