"""A run's orders, of which each node reads its own part."""

import json
import os
from pathlib import Path

from node.supervisor import orders


def run(nodes: int) -> dict[str, object]:
    parts = [{"host": f"rank{rank}", "argv": ["é" * rank]} for rank in range(nodes)]
    return {"run_id": "c/cell/r1a1", "nodes": parts, "secrets": []}


def test_each_node_reads_what_holds_for_all_and_its_own_part(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run(12)))
    orders.leave(str(tmp_path))
    (tmp_path / "run.json").unlink()
    for rank in range(12):
        common, mine, nodes = orders.read(str(tmp_path), rank)
        assert common == {"run_id": "c/cell/r1a1", "secrets": []}
        assert mine == run(12)["nodes"][rank]  # type: ignore[index]
        assert nodes == 12


def test_it_is_the_same_without_the_file_which_is_for_a_run_alone(tmp_path: Path) -> None:
    orders.leave(str(tmp_path))
    assert os.listdir(tmp_path) == []
    (tmp_path / "run.json").write_text(json.dumps(run(2)))
    assert orders.read(str(tmp_path), 1)[1:] == ({"host": "rank1", "argv": ["é"]}, 2)


def test_a_node_reads_no_more_where_there_are_more_nodes(tmp_path: Path) -> None:
    content = run(1000)
    for part in content["nodes"]:  # type: ignore[attr-defined]
        part["argv"] = ["x" * 2000]
    (tmp_path / "run.json").write_text(json.dumps(content))
    orders.leave(str(tmp_path))
    before = io()
    orders.read(str(tmp_path), 999)
    assert io() - before < 20_000


def io() -> int:
    """Bytes that this process has read."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("rchar:") + 1])
