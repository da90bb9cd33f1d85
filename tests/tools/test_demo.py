"""`make demo` in a fresh clone of this checkout: README's first command, and the tutorial's."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.nightly("setup", by_day="minutes"),
    pytest.mark.network,
    pytest.mark.timeout(1800),
]


def test_a_fresh_clone_shows_the_table(tmp_path: Path) -> None:
    clone = tmp_path / "trainbench"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    env = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MAKEFLAGS")
    }
    ran = subprocess.run(["make", "demo"], cwd=clone, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 ok, 0 not ok" in ran.stderr
    assert "samples/s" in ran.stdout
    assert (clone / "runs" / "quickstart-local").is_dir()
