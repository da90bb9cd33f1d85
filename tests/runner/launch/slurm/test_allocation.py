"""An allocation of a campaign's own: taken over, followed by another. Slurm is a stand-in here.

tests/on_slurm has allocations on real Slurm.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from node.causes import Cause
from runner.base.dataclass_schema import read
from runner.base.errors import UserError
from runner.folder.attempt import RunFolder
from runner.launch.slurm import allocation, commands, handover
from runner.launch.slurm.allocation import Allocating, Span, asked_for, script_of
from runner.launch.slurm.answers import JobRecord
from runner.launch.slurm.commands import ControllerError
from runner.terms.engines.slurm import Slurm
from tests.runner.builders import small_cluster

SLURM = Slurm(nodes=2, time_margin_s=60)


def record(number: int, left_s: float, state: str = "RUNNING") -> JobRecord:
    return read(
        JobRecord,
        {
            **{"id": number, "state": state, "reason": "", "restarts": 0, "exit_code": 0},
            **{"exit_signal": 0, "submitted_at": 1, "starts_at": 1, "partition": "main"},
            **{"ends_at": int(time.time() + left_s), "nodes": "n[1-2]", "comment": ""},
        },
    )


class Site:
    """Slurm's programs, and a campaign that wants two nodes for runs of 600 s."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: dict[int, Any] = {}
        self.cancelled: list[int] = []
        self.hosts: tuple[str, ...] = ("n1", "n2")
        self.submitted = 0
        monkeypatch.delenv(allocation.OUR_JOB, raising=False)
        monkeypatch.setattr(commands, "job", self.job)
        monkeypatch.setattr(commands, "cancel", self.cancelled.extend)
        monkeypatch.setattr(commands, "submit", self.submit)
        monkeypatch.setattr(commands, "hosts", lambda nodes: self.hosts)
        monkeypatch.setattr(commands, "find_by_comment", lambda mark: ())
        monkeypatch.setattr(commands, "partition_limit_s", lambda name: None)
        monkeypatch.setattr(Allocating, "_wait", lambda *_: self.hosts)
        self.nodes = Allocating(
            *(small_cluster(nodes=2), SLURM, None, {}),  # type: ignore[arg-type]  # asks no queue
            Span(2, 1, 6_000.0, 600.0),
            folder,
        )

    def job(self, number: int) -> Any:
        found = self.records.get(number)
        if isinstance(found, Exception):
            raise found
        return found

    def submit(self, script: Path, secrets: Mapping[str, str]) -> int:
        self.submitted += 1
        self.records[self.submitted] = record(self.submitted, 6_000)
        return self.submitted


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_one_allocation_does_for_all_runs_and_is_given_back(site: Site) -> None:
    with site.nodes.held(lambda: False):
        assert [site.nodes.granted(lambda: False).job_id for _ in range(3)] == [1, 1, 1]
    assert (site.submitted, site.cancelled) == (1, [1])


@pytest.mark.parametrize("left", [record(1, 500), record(1, 5_000, "TIMEOUT"), None])
def test_one_without_time_for_another_run_is_followed_by_a_new_one(site: Site, left: Any) -> None:
    with site.nodes.held(lambda: False):
        site.records[1] = left
        assert site.nodes.granted(lambda: False).job_id == 2
    assert site.cancelled == [1, 2]


def test_while_the_controller_is_away_it_is_taken_to_last(site: Site) -> None:
    with site.nodes.held(lambda: False):
        site.records[1] = ControllerError("Slurm's controller cannot be reached")
        assert site.nodes.granted(lambda: False).job_id == 1


def test_a_killed_benchs_allocation_is_gone_on_in_and_its_run_ended(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocation, "LEFT_S", 0.0)
    site.records[9] = record(9, 6_000)
    handover.known(site.nodes.run, handover.begun(site.nodes.run), 9)
    left = RunFolder(tmp_path / "cell" / "repeat1" / "attempt1")
    handover.known(left, handover.begun(left), 9)
    with site.nodes.held(lambda: False):
        assert site.nodes.granted(lambda: False).job_id == 9
    assert site.submitted == 0
    assert left.halt is not None
    assert left.halt.cause == Cause.CONTROL_LOST


def test_the_last_one_is_given_back_where_it_is_too_small(site: Site) -> None:
    site.records[9] = record(9, 6_000)
    handover.known(site.nodes.run, handover.begun(site.nodes.run), 9)
    site.hosts = ("n1",)
    with site.nodes.held(lambda: False):
        assert site.nodes.granted(lambda: False).job_id == 1
    assert site.cancelled == [9, 1]


def test_the_allocation_that_bench_is_in_must_have_enough_nodes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(allocation.OUR_JOB, "5")
    site.records[5] = record(5, 10)
    with site.nodes.held(lambda: False):
        assert site.nodes.granted(lambda: False).job_id == 5
    site.hosts = ("n1",)
    with (
        pytest.raises(UserError, match="the allocation 5 has 1 nodes and a cell needs 2"),
        site.nodes.held(lambda: False),
    ):
        pass
    assert site.cancelled == []


def test_no_more_time_is_asked_for_than_the_partition_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = Span(2, 1, 6_000.0, 600.0)
    monkeypatch.setattr(commands, "partition_limit_s", lambda name: None)
    assert "#SBATCH --time=101\n" in script_of(SLURM, asked_for(SLURM, span), tmp_path, "m")
    monkeypatch.setattr(commands, "partition_limit_s", lambda name: 1_800.0)
    assert "#SBATCH --time=30\n" in script_of(SLURM, asked_for(SLURM, span), tmp_path, "m")
