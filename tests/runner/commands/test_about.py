"""`python -m runner about`: what a report of a bug needs, and no names."""

from pathlib import Path

import pytest

from runner import __version__
from runner.__main__ import main
from runner.base.paths import PROJECT
from tests.runner.builders import small_cluster, small_matrix
from tests.runner.campaigns import OUT_OF_MEMORY, Story, torch_gpt, write


def test_it_counts_and_names_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = small_matrix({"zero_stage": [0, 1]}, name="secret-model")
    logs = {"zero_stage=0": torch_gpt(20), "zero_stage=1": torch_gpt(5, of=20, then=OUT_OF_MEMORY)}
    write(tmp_path, matrix, small_cluster(1, 1), lambda cell, _: Story({0: logs[cell.name]}))
    argv = ["about", "-i", str(PROJECT / "inventory" / "vs"), "--runs", str(tmp_path)]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"trainbench {__version__}, Python 3.")
    assert "inventory: 2 nodes with 8 cuda devices each, runs by ssh" in said
    assert "last campaign: " in said
    assert "out_of_memory" in said
    assert not [word for word in ("secret-model", "vs008", "10.", str(tmp_path)) if word in said]


def test_without_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["about", "--runs", str(tmp_path)]) == 0
    assert "last campaign: none" in capsys.readouterr().out
    assert main(["about", "-i", str(tmp_path / "absent")]) == 2
