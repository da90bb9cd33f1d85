"""Where a run lies on nodes that share their root, and where its caches do."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from runner.doctor import probing
from runner.terms.run import Run
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


# --- scratch --------------------------------------------------------------------------------------


def caches(run: Run) -> set[str]:
    """Where caches lie, on any node."""
    names = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
    return {str(PurePosixPath(node.env[name]).parent) for node in run.nodes for name in names}


def test_caches_lie_with_the_pin_set_below_a_root_of_the_nodes_own() -> None:
    run = small_run(ONE, small_cluster())
    assert caches(run) == {"/opt/tb/systems/torch_gpt/torch-2.13/cache"}
    assert {node.scratch for node in run.nodes} == {""}
    assert not any("TMPDIR" in node.env for node in run.nodes)


@pytest.mark.parametrize(
    ("more", "above"),
    [
        ({"scratch": PurePosixPath("/local/me")}, "/local/me"),
        ({"root_shared": True}, "/tmp"),
        ({"root_shared": True, "scratch": PurePosixPath("/local/me")}, "/local/me"),
    ],
)
def test_caches_lie_in_a_folder_of_the_runs_own(more: dict[str, Any], above: str) -> None:
    run = small_run(ONE, small_cluster(**more))
    (scratch,) = {node.scratch for node in run.nodes}  # at one path, for launchers over ssh
    assert PurePosixPath(scratch).parent == PurePosixPath(above)
    assert caches(run) == {scratch}
    assert {node.env["TMPDIR"] for node in run.nodes} == {f"{scratch}/tmp"}
    other = small_run(ONE, small_cluster(**more), repeat=2)
    assert other.nodes[0].scratch != scratch


def test_a_cells_own_variable_wins() -> None:
    cell = {**ONE, "env": {"TRITON_CACHE_DIR": "/mine"}}
    run = small_run(cell, small_cluster(root_shared=True))
    assert {node.env["TRITON_CACHE_DIR"] for node in run.nodes} == {"/mine"}
