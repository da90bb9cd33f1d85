"""A stranger's run on nodes of one's own: what is as recorded, what is not, and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from runner.base.errors import UserError
from runner.folder.attempt import Attempt
from runner.launch import rerun
from runner.plan.make import make_run
from runner.plan.rehomed import rehome
from runner.plan.shown import would_execute
from runner.terms.cluster import Cluster
from runner.terms.run import Run
from tests.runner.builders import slurm_cluster, small_cluster, small_matrix, small_run

THEIRS = replace(small_cluster(), env={"NCCL_DEBUG": "INFO"})
MINE = replace(
    small_cluster(3, root="/data/me"),
    name="mine",
    env={"NCCL_DEBUG": "INFO", "NCCL_SOCKET_IFNAME": "eth9"},
    nodes=tuple(
        replace(
            node, host=f"own{rank}", address=f"192.168.0.{rank + 1}", root=PurePosixPath("/data/me")
        )
        for rank, node in enumerate(small_cluster(3).nodes)
    ),
)
RUN = small_run({"nodes": 2, "env": {"NOTE": "it's $HOME"}}, THEIRS)


def changed(run: Run, rank: int = 0, **parts: Any) -> Run:
    nodes = list(run.nodes)
    nodes[rank] = replace(nodes[rank], **parts)
    return replace(run, nodes=tuple(nodes))


def test_on_nodes_like_the_recorded_ones_every_word_is_as_recorded() -> None:
    found = rehome(RUN, THEIRS)
    assert found.run == RUN
    assert (found.substitutions, found.variables) == ((), {})
    for line in would_execute(found):
        if "argv:" in line:
            same, _, words = line.split("argv: ")[1].split(" words")[0].partition(" of ")
            assert same == words


def test_elsewhere_only_what_names_the_machines_is_another() -> None:
    found = rehome(RUN, MINE)
    back = {each.now: each.was for each in found.substitutions}
    assert sorted(each.what for each in found.substitutions if each.rank == 0) == [
        "cluster_root",
        "the address of node rank 0",
        "the run's folder",
    ]
    for now, was in zip(found.run.nodes, RUN.nodes, strict=True):
        for word, recorded in zip(now.argv, was.argv, strict=True):
            for mine, theirs in back.items():
                word = word.replace(mine, theirs)
            assert word == recorded
        assert now.files == was.files
        assert now.env["NOTE"] == "it's $HOME"
        assert "/opt/tb" not in str(now)
    assert found.variables == {"NCCL_SOCKET_IFNAME": (None, "eth9")}
    assert not list(rerun.differences(found.run, MINE))


def test_what_only_begins_or_ends_like_a_folder_or_an_address_stays() -> None:
    argv = (
        "/opt/tb/x",
        "/opt/tbx/x",
        "/x/opt/tb/y",
        "a=/opt/tb:/opt/tb",
        "10.0.0.1:80",
        "10.0.0.12",
    )
    run = changed(RUN, argv=argv[:5])
    assert rehome(run, MINE).run.nodes[0].argv == (
        "/data/me/x",
        "/opt/tbx/x",
        "/x/opt/tb/y",
        "a=/data/me:/data/me",
        "192.168.0.1:80",
    )
    with pytest.raises(UserError, match=r"is told the address 10\.0\.0\.12"):
        rehome(changed(RUN, argv=argv), MINE)


def test_names_that_stand_in_each_other_are_put_once() -> None:
    mine = replace(
        MINE,
        nodes=tuple(replace(n, root=PurePosixPath("/opt/tb/runs/opt/tb")) for n in MINE.nodes),
    )
    run = changed(RUN, argv=("/opt/tb/a",))
    assert rehome(run, mine).run.nodes[0].argv == ("/opt/tb/runs/opt/tb/a",)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"dir": "/root/.ssh"}, "is not one that bench gives a run"),
        ({"dir": f"/opt/tb/runs/../../../root/.ssh/{RUN.id}"}, "is not one that bench gives"),
        ({"runs": "/root/.ssh", "dir": f"/root/.ssh/{RUN.id}"}, "is no folder of runs"),
        ({"runs": "/runs", "dir": f"/runs/{RUN.id}"}, "is no folder of runs"),
        ({"runs": "runs", "dir": f"runs/{RUN.id}"}, "is no folder of runs"),
        ({"scratch": "/home/me"}, "is not one that bench gives"),
        ({"scratch": "/home/../etc/trainbench-run-0123456789ab"}, "is not one that bench gives"),
        ({"device": "cuda"}, "was made on cuda"),
        ({"node_rank": 1}, "not in the order of their ranks"),
        ({"env": {"X": "203.0.113.9"}}, r"the address 203\.0\.113\.9"),
        ({"files": {"hostfile": "10.0.0.2 slots=2\n"}}, r"the address 10\.0\.0\.2"),
    ],
)
def test_what_would_write_or_reach_elsewhere_is_refused(
    parts: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        rehome(changed(RUN, **parts), MINE)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (small_cluster(1), "the run has 2 nodes, and the inventory rack 1"),
        (replace(MINE, nodes=tuple(replace(n, devices=0) for n in MINE.nodes)), "has 0 devices"),
        (slurm_cluster(), "made by ssh, and the inventory rack is of Slurm"),
    ],
)
def test_nodes_that_cannot_have_it_are_refused(cluster: Cluster, words: str) -> None:
    with pytest.raises(UserError, match=words):
        rehome(RUN, cluster)


def test_secrets_are_given_only_where_the_inventory_has_them_and_are_named() -> None:
    run = replace(RUN, secrets=("HF_TOKEN",))
    with pytest.raises(UserError, match="the secrets HF_TOKEN, which the inventory mine"):
        rehome(run, MINE)
    shown = would_execute(rehome(run, replace(MINE, secrets=("HF_TOKEN",))))
    assert "it is given these secrets of your inventory: HF_TOKEN" in list(shown)


def test_all_that_is_executed_is_shown_and_nothing_does_anything_to_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;x\x07\u202e"
    run = changed(
        RUN,
        1,
        argv=("/bin/sh", "-c", f"echo {hostile}"),
        after=(("/bin/rm", f"-rf{hostile}"),),
        files={"evil": f"first\nsecond {hostile}"},
        env={"LD_PRELOAD": f"/tmp/x.so{hostile}"},
        cwd=f"/opt/tb/{hostile}",
        processes=(("/bin/one", "a"), ("/bin/two", "b")),
        step=("--container-image", "evil"),
    )
    text = "\n".join(would_execute(rehome(run, THEIRS)))
    for word in ("/bin/rm", "LD_PRELOAD", "second", "/bin/one a", "/bin/two b", "evil"):
        assert word in text
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_a_run_on_slurm_is_put_into_the_new_runs_folder(tmp_path: Path) -> None:
    matrix = small_matrix(defaults={"nodes": 2})
    was = PurePosixPath("/home/them/runs/m-rack/cell/repeat1/attempt1")
    run = make_run(matrix, matrix.cells[0], slurm_cluster(), campaign="m-rack", folder=was)
    found = rehome(run, slurm_cluster(root="/data/me"))
    now = tmp_path / "rerun-m-rack" / "cell" / "repeat1" / "attempt1"
    again = rerun._again(found.run, "rerun-m-rack", Attempt(now, run.cell.id, 1, 1))
    assert {node.dir.rpartition("/nodes/")[0] for node in again.nodes} == {str(now)}
    assert str(was) not in str(again.to_json()["nodes"])
    elsewhere = changed(run, 1, dir="/root/.ssh")
    with pytest.raises(UserError, match="is not one that bench gives a run"):
        rehome(elsewhere, slurm_cluster())
