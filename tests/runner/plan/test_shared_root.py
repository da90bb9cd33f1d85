"""Where a run lies on nodes that share their root."""

from runner.doctor import probing
from tests.runner.builders import small_cluster, small_run

ONE = {"system": "torch_gpt", "nodes": 2}


def test_nodes_that_share_a_root_have_folders_of_their_own_below_it() -> None:
    run = small_run(ONE, small_cluster(root_shared=True))
    assert [node.dir for node in run.nodes] == [
        f"/opt/tb/runs/{host}/{run.id}" for host in ("n1", "n2")
    ]
    assert {node.runs for node in run.nodes} == {"/opt/tb/runs"}


def test_a_run_has_one_path_on_nodes_with_roots_of_their_own() -> None:
    run = small_run(ONE, small_cluster())
    assert {node.dir for node in run.nodes} == {f"/opt/tb/runs/{run.id}"}


def test_so_has_doctors_probe() -> None:
    cluster = small_cluster(root_shared=True)
    orders = probing.plan(cluster, cluster.nodes, "torch_gpt/torch-2.13", (), number=1)
    assert [node.dir for node in orders.nodes] == [
        f"/opt/tb/runs/{host}/{orders.run_id}" for host in ("n1", "n2")
    ]
