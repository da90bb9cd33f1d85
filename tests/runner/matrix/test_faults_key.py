"""`faults` and `recovery` of a cell: read, refused, and where they may be."""

from typing import Any

import pytest

from runner.base.errors import UserError
from runner.plan.checks import check_cell
from runner.plan.make import make_run
from runner.terms.faults import Fault
from tests.runner.builders import small_cluster, small_matrix


def cell(faults: Any, **more: Any) -> Any:
    return small_matrix(defaults={"faults": faults, "devices_per_node": 2, **more}).cells[0]


def test_a_word_is_a_fault() -> None:
    assert cell("kill_rank:1.1@25").faults.planned == (Fault("kill_rank", 1, 1, 25),)
    assert cell("stop@2.5s+4s").faults.planned == (Fault("stop", after_s=2.5, for_s=4.0),)
    assert len(cell("kill_rank@5 kill_node:1@9").faults.planned) == 2
    assert cell("none").faults is None
    assert cell("none").recovery == ""
    assert cell("kill_rank@5").recovery == "restart"
    assert cell("kill_rank@5", recovery="none").recovery == ""


def test_a_list_of_mappings() -> None:
    listed = cell([{"kind": "kill_node", "node": 1, "iteration": 7}])
    assert listed.faults.planned == (Fault("kill_node", 1, 0, 7),)


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ("kill_rnk@5", "did you mean 'kill_rank'"),
        ("kill_rank", "KIND@ITERATION"),
        ("kill_rank@5+3s", "has no length"),
        ("slow@5", "needs for_s"),
        ("power_off@5", "neither ssh nor Slurm can; take kill_node"),
        ("power_off:gpu-07@5", "neither ssh nor Slurm can"),
        ([{"kind": "power_off", "host": "gpu-07", "iteration": 5}], "neither ssh nor Slurm can"),
        (7, "write faults: kill_rank@25"),
        ([{"kind": "kill_rank"}], "either iteration or after_s"),
        ([{"kind": "kill_rank", "iteration": 5, "host": "n1"}], "'host'"),
        ([{"kind": "kill_rank", "iteration": -5}], "iteration"),
        ({"kind": "kill_rank", "iteration": 5}, "write faults: kill_rank@25"),
        ("network:1@5+3s", "is not one of kill_rank, kill_node, stop, slow"),
    ],
)
def test_what_cannot_be_is_refused_with_the_cure(faults: Any, words: str) -> None:
    with pytest.raises(UserError, match=words.replace("+", r"\+")):
        small_matrix(defaults={"faults": faults})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"faults": "kill_rank:2@5", "nodes": 2}, "nodes 0 to 1"),
        ({"faults": "kill_rank:0.4@5"}, "ranks 0 to 1"),
        ({"faults": "kill_rank@99", "train_iters": 50}, "train_iters is 50"),
        (
            {"faults": "kill_rank@5", "recovery": "spare", "nodes": 3, "global_batch_size": 24},
            "spare needs 4 nodes",
        ),
        ({"faults": "kill_rank@5", "recovery": "shrink"}, "raise nodes"),
        ({"faults": "kill_rank@5", "recovery": "requeue"}, "Slurm's"),
        ({"checkpoint_async": True}, "needs checkpoint_interval"),
    ],
)
def test_what_does_not_fit_the_cluster_is_refused(more: dict[str, Any], words: str) -> None:
    asked = small_matrix(defaults={"devices_per_node": 2, **more}).cells[0]
    with pytest.raises(UserError, match=words):
        check_cell(asked, small_cluster(3, root_shared=True), None)


def test_several_nodes_need_a_folder_that_all_see() -> None:
    asked = small_matrix(defaults={"checkpoint_interval": 5, "nodes": 2}).cells[0]
    with pytest.raises(UserError, match="cluster_checkpoints"):
        check_cell(asked, small_cluster(2), None)


def test_attempts_of_a_chain_have_one_folder_and_one_list_of_faults() -> None:
    matrix = small_matrix(defaults={"faults": "kill_rank@5", "checkpoint_interval": 2})
    runs = [
        make_run(
            matrix, matrix.cells[0], small_cluster(1), campaign="m", attempt=number, begun=begun
        )
        for number, begun in ((3, None), (4, 3))
    ]
    folders = {run.chain.folder for run in runs if run.chain}
    assert folders == {f"/opt/tb/runs/.checkpoints/m/{matrix.cells[0].id}/r1-3"}
    for run in runs:
        argv = run.nodes[0].argv
        assert argv[argv.index("--checkpoint-dir") + 1] in folders
        job = run.orders.job(run.nodes[0])
        assert job["chain"]["node"] == 0
        assert job["chain"]["faults"][0]["kind"] == "kill_rank"


def test_a_cell_without_any_of_it_is_as_it_was() -> None:
    matrix = small_matrix()
    run = make_run(matrix, matrix.cells[0], small_cluster(1), campaign="m")
    assert run.chain is None
    assert "chain" not in run.to_json()
    assert "--checkpoint-dir" not in run.nodes[0].argv
