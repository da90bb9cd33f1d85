"""setup.yml takes a node that has nothing to one that trains, then bench trains on it."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import RealNodes
from tests.on_nodes.campaign import Bench
from tests.roles.play import play

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.network,
    pytest.mark.nightly("setup", by_day="minutes"),
]


def test_bare_node_is_set_up_and_trains(tmp_path: Path, real_nodes: RealNodes) -> None:
    variables = {
        "cluster_root": "/opt/trainbench-bare",
        "cluster_systems": ["torch_gpt"],
        "cluster_devices_per_node": 2,
        "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0"},
        "base_time_sync": False,  # the clock is this machine's
    }
    group = real_nodes(1, variables=variables)
    first = play(group.inventory)
    assert first.rc == 0, first.out
    assert first.changed()["node1"] > 5
    assert play(group.inventory).changed() == {"node1": 0}
    cells = {
        "name": "bare",
        "defaults": {"system": "torch_gpt", "train_iters": 5, "devices_per_node": 2},
    }
    done = Bench(tmp_path, group.inventory, cells).run(timeout=200)
    assert done.returncode == 0, done.stderr
    gone = play(group.inventory, "-e", "teardown=yes", playbook="teardown.yml")
    assert gone.rc == 0, gone.out
