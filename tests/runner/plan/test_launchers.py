"""`launcher: srun` and `python` as a plan: what they start, and where they cannot be had."""

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


def test_the_trainer_of_one_device_starts_without_a_launcher() -> None:
    run = small_run({"nodes": 2, "devices_per_node": 1, "launcher": "python"}, small_cluster())
    second = run.nodes[1]
    assert second.argv[1].endswith("/train.py")
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    assert [second.env[name] for name in ranks] == ["1", "2", "0", "1"]
    assert second.env["MASTER_ADDR"] == run.nodes[0].env["MASTER_ADDR"]
    assert second.env["MASTER_PORT"]


def test_several_devices_need_a_launcher() -> None:
    (cell,) = small_matrix(defaults={"launcher": "python", "devices_per_node": 2}).cells
    with pytest.raises(UserError, match="devices_per_node is 2; take launcher torchrun"):
        check_cell(cell, small_cluster(), None)
