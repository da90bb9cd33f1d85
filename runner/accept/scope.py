"""What of an acceptance can be chosen, and how long its stages take, beforehand. Pure."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from runner.doctor.effort import Effort

STAGES = ("alike", "devices", "links", "storage", "training")
EVERY_PAIR = 8  # nodes of which every pair is measured; of more, each node with a few others
START_S = 15.0  # until torch is there on every node


@dataclass(frozen=True)
class AcceptOptions:
    """How thorough an acceptance is. `node` names the only one that is asked."""

    stages: tuple[str, ...] = STAGES
    quick: bool = False
    product_s: float = 120.0
    storage_mib: int = 1024
    storage_all: bool = False
    train_iters: int = 40
    soak_s: float = 0.0
    node: str = ""
    matrix: str = ""
    left_out: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what state.json keeps, so that only the same acceptance is gone on with."""
        return {**asdict(self), "stages": [*self.stages], "left_out": [*self.left_out]}

    def effort(self, nodes: int) -> Effort:
        """Return how the probe measures so many nodes."""
        return Effort(
            seconds=0.5 if self.quick else 1.0,
            tries=3,
            rounds=rounds_of_pairs(nodes),
            small=True,
            patience_s=600.0,
            stall_s=60.0,
            product_s=self.product_s,
            storage_mib=self.storage_mib,
            storage_all=self.storage_all,
            left_out=self.left_out,
        )

    def expected_s(self, nodes: int, device: str = "cpu") -> Mapping[str, float]:
        """Return about how long each stage takes on so many healthy nodes."""
        each = 0.5 if self.quick else 1.0
        rounds = rounds_of_pairs(nodes) or max(1, nodes - 1 + nodes % 2)
        tests = 3 if device == "cpu" else 5
        trainings = len(group_sizes(nodes))
        every = {
            "alike": 15 + 0.05 * nodes,
            "devices": START_S + tests * 2 * each + self.product_s * 1.1,
            "links": START_S + 0.01 * nodes + rounds * 1.6 * each + 12,
            "storage": START_S + self.storage_mib / 100,
            "training": trainings * (START_S + 0.3 * self.train_iters) + self.soak_s,
        }
        return {stage: every[stage] for stage in STAGES if stage in self.stages}


def rounds_of_pairs(nodes: int) -> int:
    """Return how many rounds of disjoint pairs find a slow node; 0: every pair once.

    Each node is measured with so many others that one of them can be slow, too.
    """
    return 0 if nodes <= EVERY_PAIR else math.ceil(math.log2(nodes)) + 1


def group_sizes(nodes: int) -> list[int]:
    """Return the sizes of the groups that train: 1, 2, 4, ..., all.

    >>> group_sizes(6)
    [1, 2, 4, 6]
    """
    sizes = [2**power for power in range(max(nodes, 1).bit_length()) if 2**power < nodes]
    return [*sizes, nodes]
