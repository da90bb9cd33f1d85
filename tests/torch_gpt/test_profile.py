"""torch_gpt with torch's profiler: a trace of the iterations and ranks that were asked for."""

import gzip
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.torch_gpt.test_training import Train, prefix, train

__all__ = ["prefix", "train"]
BASE = ("--zero-stage", "0", "--micro-batch-size", "4", "--profile", "torch")


def test_it_traces_the_chosen_iterations_of_the_chosen_rank(train: Train, tmp_path: Path) -> None:
    words = ("--profile-steps", "5-6", "--profile-ranks", "1", "--profile-dir", f"{tmp_path}/p")
    run = train(2, *BASE, *words)
    assert run.status == 0, run.err
    assert len(run.steps) == 8
    assert "profile" not in run.out
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["rank1.json.gz"]
    trace = json.loads(gzip.decompress((tmp_path / "p" / "rank1.json.gz").read_bytes()))
    names = [event.get("name", "") for event in trace["traceEvents"]]
    assert sum(bool(re.fullmatch(r"ProfilerStep#\d+", name)) for name in names) == 2
    assert sum(name == "aten::embedding" for name in names) == 2  # one for each iteration
    assert trace["distributedInfo"]["rank"] == 1


def test_losses_are_those_without_it(train: Train, tmp_path: Path) -> None:
    run = train(2, *BASE, "--profile-steps", "4-4", "--profile-dir", str(tmp_path))
    assert run.column("loss") == train(2, *BASE[:-2]).column("loss")


@pytest.mark.parametrize("steps", ["3-4", "6-5", "x", "5"])
def test_iterations_that_cannot_be_traced_are_refused(train: Train, steps: str) -> None:
    run = train(1, *BASE, "--profile-steps", steps)
    assert run.status == 2
    assert "--profile-steps" in run.errors[0]
