"""Fixtures of all tests. Those that need real nodes are in tests/cluster/fixtures.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import stand_in

pytest_plugins = ["tests.cluster.fixtures"]
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _project_on_path() -> None:
    """Commands that tests start must find the checkout's modules and this Python's programs."""
    os.environ["PYTHONPATH"] = str(ROOT)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="session")
def stand_in_root() -> Path:
    """A root folder with the stand-in trainer, where test nodes see it (they hide /tmp)."""
    root = ROOT / "build" / "stand-in"
    stand_in.install(root, os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # CPython has it
    return root
