"""A trainer that setup did not bring, on real nodes: what its folder and its Python are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.folder.campaign import Campaign
from tests.cluster.fixtures import Group, RealNodes
from tests.cluster.node import Node
from tests.on_nodes.campaign import Bench

pytestmark = pytest.mark.cluster

FOLDER = "/opt/trainbench-{{ own }}"  # a template, if anybody took it for one
TRAINER = """
import time
for step in range(1, 13):
    time.sleep(0.01)
    print(f"step {step}/12 loss {3 - step / 12:.3f} dt: 10.0ms", flush=True)
"""
MATRIX: dict[str, Any] = {
    "name": "own",
    "defaults": {
        "system": "command",
        "nodes": 2,
        "devices_per_node": 1,
        "argv": ["python3", "train.py"],
        "cwd": FOLDER.replace("{", "{{").replace("}", "}}"),
        "environment": {"python": "/usr/bin/python3"},
        "log": {"step": r"step (\d+)/(\d+)", "loss": r"loss ([\d.]+)"},
    },
    "time_limit_s": 480,
}


@pytest.fixture
def group(real_nodes: RealNodes) -> Iterator[Group]:
    variables = {"cluster_root": "/opt/trainbench-own-root", "cluster_systems": []}
    group = real_nodes(2, variables={**variables, "cluster_devices_per_node": 1})
    for node in group.nodes:
        write(node, TRAINER)
    yield group
    for node in group.nodes:
        node.exec(["rm", "-rf", FOLDER, "/opt/trainbench-own-root"], check=True)


def write(node: Node, text: str) -> None:
    script = 'mkdir -p "$1" && printf %s "$2" > "$1/train.py"'
    node.exec(["sh", "-c", script, "sh", FOLDER, text], check=True)


def test_a_folder_that_differs_between_nodes_or_changes_is_refused(
    tmp_path: Path, group: Group
) -> None:
    bench = Bench(tmp_path, group.inventory, MATRIX)
    write(group.nodes[1], TRAINER + "#")
    differs = bench.run()
    assert differs.returncode == 2, differs.stderr
    first, second = (node.hostname for node in group.nodes)
    words = f"folder {FOLDER} on {second} differs from the one on {first} (train.py changed)"
    assert words in differs.stderr
    write(group.nodes[1], TRAINER)
    ran = bench.run()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    recorded = Campaign(bench.campaign).settings.environment or {}
    assert set(recorded) == {f"folder {FOLDER}", "python /usr/bin/python3"}
    for node in group.nodes:
        write(node, TRAINER + "#")
    changed = bench.run("--again")
    assert changed.returncode == 2
    assert f"folder {FOLDER} on the nodes is not what campaign" in changed.stderr
