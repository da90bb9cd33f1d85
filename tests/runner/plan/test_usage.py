"""What of a cluster's devices a campaign uses, as the head of bench and of a dry run says it."""

from dataclasses import replace
from typing import Any

import pytest

from runner.plan.usage import uses
from tests.runner.builders import small_cluster, small_matrix


@pytest.mark.parametrize(
    ("nodes", "axes", "defaults", "words"),
    [
        (1, {}, {"devices_per_node": 8}, "uses 8 of 8 devices per node"),
        (1, {}, {"devices_per_node": 1}, "uses 1 of 8 devices per node, 7 idle"),
        (1, {}, {"device_ids": [4, 5]}, "uses 2 of 8 devices per node, 6 idle"),
        (2, {}, {"devices_per_node": 8}, "uses 8 of 8 devices per node; 1 of 2 nodes, 1 idle"),
        (
            4,
            {"nodes": [1, 2, 4], "devices_per_node": [1, 8]},
            {},
            "uses 1 to 8 of 8 devices per node, 0 to 7 idle; 1 to 4 of 4 nodes, 0 to 3 idle",
        ),
    ],
)
def test_what_is_used_and_what_is_idle(
    nodes: int, axes: dict[str, Any], defaults: dict[str, Any], words: str
) -> None:
    assert uses(small_matrix(axes, defaults).cells, small_cluster(nodes, 8)) == words


def test_nodes_of_other_sizes_give_a_range() -> None:
    cluster = small_cluster(2, 8)
    first, second = cluster.nodes
    cluster = replace(cluster, nodes=(first, replace(second, devices=4)))
    cells = small_matrix(defaults={"nodes": 2, "devices_per_node": 4}).cells
    assert uses(cells, cluster) == "uses 4 of 4 to 8 devices per node, 0 to 4 idle; 2 of 2 nodes"
