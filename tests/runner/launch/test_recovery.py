"""Which nodes the next attempt has, and whether there is one."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.causes import Cause
from runner.folder.attempt import Attempt, Halt
from runner.launch import recovery
from runner.launch.recovery import RecoveryPlan, can_go_on, fewer_nodes
from runner.terms.cell import Cell
from runner.terms.outcome import Outcome
from tests.runner.builders import small_cluster, small_matrix


def cell(policy: str, **more: Any) -> Cell:
    values = {"faults": "kill_node@5", "recovery": policy, "nodes": 3, "global_batch_size": 24}
    return small_matrix(defaults={**values, "devices_per_node": 1, **more}).cells[0]


def failed_on(host: str | None) -> Attempt:
    """Return an attempt that ended for a lost node, or for none; it has no logs."""
    halt = Halt(Cause.NODE_LOST, host, "") if host else None
    return cast(Attempt, SimpleNamespace(hosts={}, logs=dict, halt=halt, run=True))


def made(policy: str, **more: Any) -> RecoveryPlan:
    cluster = small_cluster(4, root_shared=True)
    return RecoveryPlan(cell(policy, **more), 1, cluster)


def hosts(plan: RecoveryPlan) -> list[str]:
    return [node.host for node in plan.cluster.nodes[: plan.cell.nodes]]


def test_the_same_nodes_start_again() -> None:
    plan = made("restart")
    plan.failed(failed_on("n2"))
    assert hosts(plan) == ["n1", "n2", "n3"]


def test_a_spare_takes_the_place_and_the_lost_ones_come_last() -> None:
    plan = made("spare")
    plan.failed(failed_on("n2"))
    assert hosts(plan) == ["n1", "n3", "n4"]
    plan.failed(failed_on("n4"))
    assert hosts(plan) == ["n1", "n3", "n2"]  # there is no other
    assert plan.cell.id == made("spare").cell.id


def test_fewer_nodes_go_on_with_the_same_batch() -> None:
    plan = made("shrink")
    plan.failed(failed_on("n1"))
    assert hosts(plan) == ["n2", "n3"]
    assert plan.cell.parameters["global_batch_size"] == 24
    plan.failed(failed_on("n3"))
    assert hosts(plan) == ["n2"]
    plan.failed(failed_on("n2"))
    assert len(hosts(plan)) == 1  # fewer than one there are not


def test_a_number_of_nodes_that_cannot_share_the_batch_is_passed_over() -> None:
    asked = cell("shrink", nodes=3, global_batch_size=27, micro_batch_size=9)
    assert fewer_nodes(asked, small_cluster(4, root_shared=True)).nodes == 1


@pytest.mark.parametrize(
    ("outcome", "goes_on"),
    [
        (Outcome("failed", Cause.EXIT, ""), True),
        (Outcome("did_not_run", Cause.NODE_LOST, ""), True),
        (Outcome("did_not_run", Cause.MISSING, ""), False),
        (Outcome("did_not_run", Cause.EXIT, ""), False),
        (Outcome("interrupted", Cause.INTERRUPTED, ""), False),
    ],
)
def test_what_would_fail_again_is_not_tried_again(outcome: Outcome, goes_on: bool) -> None:
    assert can_go_on(outcome, failed_on("n1")) is goes_on


def test_as_many_attempts_as_faults_and_two_more() -> None:
    assert made("restart").most == 1 + recovery.FURTHER
    without = replace(made("restart").cell, faults=None)
    assert RecoveryPlan(without, 1, small_cluster(4)).most == recovery.MOST_RESTARTS
