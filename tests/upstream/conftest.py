"""Fixtures of the tests with upstream's repositories."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture
def seen_by_nodes() -> Iterator[Path]:
    """A folder that test nodes see: they hide /tmp. New each time, since it is below their root."""
    folder = ROOT / "build" / f"mirrors-{uuid.uuid4().hex[:8]}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
