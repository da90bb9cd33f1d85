"""`launcher: srun` as a plan: what each task starts, and where it cannot be had."""

import pytest

from runner.base.errors import UserError
from runner.plan.checks import check_cell
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run


def test_each_task_starts_the_trainer_itself() -> None:
    run = small_run({"nodes": 2, "devices_per_node": 2, "launcher": "srun"}, slurm_cluster())
    first, second = run.nodes
    assert first.argv[1].endswith("/train.py")
    assert first.argv == second.argv
    assert (first.tasks, first.env["MASTER_ADDR"]) == (2, "{master_addr}")
    assert run.to_json()["nodes"][0]["tasks"] == 2


def test_other_launchers_have_no_tasks() -> None:
    run = small_run({"nodes": 2}, slurm_cluster())
    assert run.nodes[0].tasks == 0


def test_without_slurm_it_is_refused() -> None:
    (cell,) = small_matrix(defaults={"launcher": "srun"}).cells
    with pytest.raises(UserError, match="launcher srun is Slurm's, and cluster_engine of the inv"):
        check_cell(cell, small_cluster(), None)


def test_a_container_of_a_node_has_no_tasks() -> None:
    (cell,) = small_matrix(defaults={"launcher": "srun", "pin": "container"}).cells
    with pytest.raises(UserError, match="cluster_container_engine: pyxis"):
        check_cell(cell, slurm_cluster(), None)
