"""Healthy nodes pass: real ones, and clusters of any size made of their noise."""

from collections.abc import Callable
from typing import Any

import pytest

from runner.accept.scope import STAGES
from tests.acceptance.bed import Accepting, bed
from tests.acceptance.simulated import simulated

Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def recorded() -> list[list[Any]]:
    """The tests of the clean acceptances so far."""
    return []


@pytest.mark.cluster
@pytest.mark.nightly("acceptance", by_day="two minutes")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("lender")
@pytest.mark.parametrize("number", range(6))
def test_clean_nodes_pass(number: int, recorded: list[list[Any]], record_property: Record) -> None:
    with bed() as made:
        ended = Accepting(made, STAGES).end()
    record_property("clean", number)
    record_property("exit code", ended.code)  # 2: it could not tell something
    record_property("s", f"{ended.took_s:.0f}")
    assert ended.detail, ended.words
    assert ended.detail["faults"] == []
    recorded.append([test for stage in ended.detail["stages"] for test in stage["tests"]])


@pytest.mark.nightly("acceptance")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("clusters", [20, 2_000])
def test_simulated_clusters_pass(
    clusters: int, recorded: list[list[Any]], record_property: Record
) -> None:
    rows, fine = simulated(recorded, clusters)
    for _, nodes, tests, failed, share in rows:
        record_property(f"{nodes} nodes", f"{failed} of {clusters} failed ({share}), {tests} tests")
    assert fine, rows
