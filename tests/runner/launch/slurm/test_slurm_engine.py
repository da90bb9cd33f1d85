"""What Slurm is asked before anything is in its queue."""

import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from runner.base.errors import UserError
from runner.folder.campaign import Campaign
from runner.launch.engine import Wanted
from runner.launch.slurm import commands
from runner.launch.slurm.slurm_engine import SlurmEngine
from runner.terms.engines.slurm import Slurm
from runner.terms.inspected import Sought
from tests.runner.builders import small_cluster, small_matrix

CELLS = small_matrix({"nodes": [1, 2], "zero_stage": [0, 1]}).cells
WANTED = Wanted(CELLS, 600.0)


def engine(mode: Literal["job", "allocation"]) -> SlurmEngine:
    return made(replace(Slurm(nodes=2), mode=mode))


def made(slurm: Slurm) -> SlurmEngine:
    return SlurmEngine(replace(small_cluster(), engine=slurm), Path("runs"))


def test_each_kind_of_job_is_asked_about_once() -> None:
    trials = engine("job").trials(WANTED)
    assert sorted(text.count("--nodes=2") for text in trials) == [0, 1]
    assert all(what.startswith("the job of cell nodes=") for what in trials.values())


def test_of_an_allocation_the_job_that_holds_the_nodes_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(commands, "partition_limit_s", lambda name: 1_800.0)
    ((text, what),) = engine("allocation").trials(WANTED).items()
    assert "--time=30\n" in text  # what it will be given, and no more
    assert what == "the job that holds the nodes"
    assert "--nodes=2" in text
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert engine("allocation").trials(WANTED) == {}


def test_an_mpi_that_srun_does_not_know_is_refused_before_anything_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sbatch --test-only takes any: the step would fail."""
    monkeypatch.setattr(commands, "mpi_types", lambda: ("none", "pmix"))
    monkeypatch.setattr(commands, "test_only", lambda script: None)
    slurm = Slurm(nodes=2, mpi="pmi9")
    with pytest.raises(UserError, match="slurm_mpi: srun knows no pmi9 here, but none, pmix"):
        made(slurm).try_out(WANTED, tmp_path)
    made(replace(slurm, mpi="pmix")).try_out(WANTED, tmp_path)


def test_the_login_node_says_what_a_trainers_folder_and_python_are(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    folders = {"folder a": str(tmp_path), "folder b": str(tmp_path / "no")}
    sought = Sought({"env": "/no"}, folders=folders, pythons={"python p": sys.executable})
    said = engine("job").inspect(["rank0"], sought, Campaign(tmp_path), lambda: False)
    ((host, inspected),) = said.items()
    assert host == "the login node"
    assert set(inspected.relied["folder a"]) == {"checksum"}
    assert "is not there" in inspected.relied["folder b"]["problem"]
    assert inspected.relied["python p"]["python"] == platform.python_version()
