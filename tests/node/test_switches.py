"""Node ranks by switch: each node works out the same order, whatever Slurm's own is."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.supervisor.switches import by_switch, expand, rank_of, switch_here

LEAVES = [["n2", "n4"], ["n1", "n3"]]


@pytest.mark.parametrize(
    ("nodes", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[01-03,10],login", ["n01", "n02", "n03", "n10", "login"]),
        ("r[0-1]n[1-2]-ib", ["r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"]),
        ("a[1-2],b[3]", ["a1", "a2", "b3"]),
    ],
)
def test_a_list_of_nodes_is_expanded_as_scontrol_does(nodes: str, hosts: list[str]) -> None:
    assert expand(nodes) == hosts


@pytest.mark.parametrize("nodes", ["n[1-", "n[a]", "n]1[", "n[1-999999999]", "n[1-9][1-9999999]"])
def test_anything_else_is_refused(nodes: str) -> None:
    with pytest.raises(ValueError, match="node"):
        expand(nodes)


@given(st.text(alphabet="n0123456789[],-", max_size=30))
def test_any_text_is_expanded_or_refused(nodes: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(expand(nodes))


def test_nodes_of_a_switch_have_ranks_in_a_row() -> None:
    assert by_switch(["n1", "n2", "n3", "n4"], LEAVES) == ["n2", "n4", "n1", "n3"]
    assert by_switch(["n9", "n3", "n2"], LEAVES) == ["n2", "n3", "n9"]


def test_all_nodes_of_a_run_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "switches.json"
    file.write_text(json.dumps({"schema": 1, "leaves": LEAVES}))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-9]")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[1-4]")
    hosts = ["n1", "n2", "n3", "n4"]
    ranks = [rank_of(host, nodeid, str(file), 4) for nodeid, host in enumerate(hosts)]
    assert ranks == [2, 0, 3, 1]


@pytest.mark.parametrize(
    ("content", "listed", "nodes"),
    [
        ('{"leaves": [["n1", "n2"]]}', "n[1-2]", 2),  # one switch: nothing to order
        ('{"leaves": []}', "n[1-2]", 2),
        ("[]", "n[1-2]", 2),
        ("no JSON", "n[1-2]", 2),
        (json.dumps({"leaves": LEAVES}), "n[1-", 2),
        (json.dumps({"leaves": LEAVES}), "n[1-3]", 2),  # not the nodes of the run
        (json.dumps({"leaves": LEAVES}), "n[3-4]", 2),  # this node is not among them
    ],
)
def test_otherwise_slurms_own_order_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, listed: str, nodes: int
) -> None:
    file = tmp_path / "switches.json"
    file.write_text(content)
    monkeypatch.delenv("SLURM_STEP_NODELIST", raising=False)
    monkeypatch.setenv("SLURM_JOB_NODELIST", listed)
    assert rank_of("n1", 0, str(file), nodes) == 0
    assert rank_of("n1", 0, str(tmp_path / "none"), nodes) == 0
    assert rank_of("n1", 0, "", nodes) == 0


def test_the_switches_above_a_node_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_TOPOLOGY_ADDR", "top.leaf0.n1")
    assert switch_here() == "top.leaf0"
    monkeypatch.setenv("SLURM_TOPOLOGY_ADDR", "n1")
    assert switch_here() == ""
