"""`demo` is setup and bench, and ends with the first that fails."""

from unittest.mock import Mock

import pytest

from runner.__main__ import main
from runner.commands import bench, setup


@pytest.mark.parametrize("code", [0, 1])
def test_it_sets_up_then_runs_the_quickstart(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "run", Mock(return_value=code))
    monkeypatch.setattr(bench, "run", benched := Mock(return_value=0))
    assert main(["demo"]) == code
    assert benched.call_count == 1 - code
