"""roles/dataset on real nodes: made once, the same everywhere, repaired where it broke."""

from __future__ import annotations

import pytest

from tests.cluster.fixtures import RealNodes
from tests.roles.play import play

pytestmark = [pytest.mark.cluster, pytest.mark.network]


def test_made_on_one_node_brought_to_the_other_and_repaired(real_nodes: RealNodes) -> None:
    root = "/opt/trainbench-data"
    variables = {
        "cluster_root": root,
        "cluster_systems": [],
        "cluster_devices_per_node": 1,
        "dataset_vocab_size": 1024,
        "dataset_max_bytes": 500_000,
    }
    group = real_nodes(2, variables=variables)
    first = play(group.inventory, playbook="data.yml")
    assert first.rc == 0, first.out
    again = play(group.inventory, playbook="data.yml")
    assert again.changed() == {"node1": 0, "node2": 0}, again.out
    data = f"{root}/datasets/default"
    sums = [node.exec(["sh", "-c", f"sha256sum {data}/*"]).stdout for node in group.nodes]
    assert sums[0] == sums[1]
    assert sums[0].count("\n") == 5

    # One node's tokens are cut short: verify names node, file and fault; data repairs just that.
    group.nodes[1].exec(["truncate", "-s", "-10", f"{data}/default_text_document.bin"])
    verify = play(group.inventory, playbook="verify.yml")
    assert verify.rc != 0
    assert verify.recap["node1"]["failed"] == 0
    assert verify.recap["node2"]["failed"] == 1
    assert f"{data}/default_text_document.bin has sha256" in verify.out
    repaired = play(group.inventory, playbook="data.yml")
    assert repaired.changed()["node2"] == 1, repaired.out
    assert play(group.inventory, playbook="verify.yml").rc == 0
