"""One clock for all trainers: samples/s by when the log's lines came, on a real node over ssh."""

from pathlib import Path

import pytest

from tests import clock_trainer
from tests.cluster.fixtures import RealNodes
from tests.on_nodes.campaign import Bench

pytestmark = pytest.mark.cluster

FOLDER = "/opt/trainbench-clock"


def test_figures_are_by_arrival(tmp_path: Path, real_nodes: RealNodes) -> None:
    root = "/opt/trainbench-clock-root"
    variables = {"cluster_root": root, "cluster_systems": [], "cluster_devices_per_node": 1}
    group = real_nodes(1, variables=variables)
    (node,) = group.nodes
    script = 'mkdir -p "$1" && printf %s "$2" > "$1/train.py"'
    node.exec(["sh", "-c", script, "sh", FOLDER, clock_trainer.PROGRAM], check=True)
    bench = Bench(tmp_path, group.inventory, clock_trainer.matrix(FOLDER))
    ran = bench.run()
    node.exec(["rm", "-rf", FOLDER, root], check=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    clock_trainer.check(bench.runs)
