"""Fixtures of the unit tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.commands.parse import parse
from tests import torch_first  # noqa: F401 - before any test module brings Ansible


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def of(
        lines: Sequence[str] | bytes, system: str | None = None, **options: Any
    ) -> dict[str, Any]:
        path = tmp_path / "log"
        whole = lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()
        path.write_bytes(whole)
        return parse([path], system, **{"warmup_iters": 0, **options})

    return of
