"""What of an acceptance can be chosen, and how long its stages take, beforehand. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import Any

from runner.doctor.effort import Effort

EVERY_PAIR = 8  # nodes of which every pair is measured; of more, each node with a few others
START_S = 15.0  # until torch is there on every node

# Each stage, in their order, to its seconds for options, healthy nodes and kind of device.
EXPECTED_S: Mapping[str, Callable[[AcceptOptions, int, str], float]] = {
    "alike": lambda options, nodes, device: 15 + 0.05 * nodes,
    "devices": lambda options, nodes, device: (
        START_S + (3 if device == "cpu" else 5) * 2 * options.each_s + options.product_s * 1.1
    ),
    "links": lambda options, nodes, device: (
        START_S + 0.01 * nodes + (_rounds(nodes) * 1.6 + 6) * options.each_s + 12
    ),
    "storage": lambda options, nodes, device: START_S + options.storage_mib / 100,
    "training": lambda options, nodes, device: (
        len(options.group_sizes(nodes)) * (START_S + 0.3 * options.train_iters) + options.soak_s
    ),
}
STAGES = tuple(EXPECTED_S)
OF_ALL_NODES = ("links", "training")  # they need more than one
QUICK: Mapping[str, Any] = {"product_s": 8.0, "storage_mib": 128, "train_iters": 20}  # --quick


SMALL = {"model": "gpt2-tiny", "precision": "fp32", "seq_length": 64, "micro_batch_size": 4}
# The device must be the limit, not the CPU that feeds it: an H100 gave 293 to 302 samples/s in
# three acceptances, where gpt2-small with 4 samples of 64 tokens gave 88 to 135. 7 GB of memory.
WIDE = {
    "model": "gpt-1.3b",
    "num_layers": 4,
    "precision": "bf16",
    "seq_length": 1024,
    "micro_batch_size": 8,
}
# What stage training trains on each kind of device.
WORKLOADS: Mapping[str, Mapping[str, Any]] = {"cpu": SMALL, "cuda": WIDE, "npu": WIDE}


@dataclass(frozen=True)
class AcceptOptions:
    """How thorough an acceptance is, and what it measures.

    `node` names the only one that is asked. `device` and `workload` are set by `measuring`.
    """

    stages: tuple[str, ...] = STAGES
    quick: bool = False
    product_s: float = 120.0
    storage_mib: int = 1024
    train_iters: int = 40
    soak_s: float = 0.0
    node: str = ""
    matrix: str = ""
    left_out: tuple[str, ...] = ()
    device: str = ""
    workload: str = ""

    def measuring(self, device: str) -> AcceptOptions:
        """Return these options for a kind of device, with what trains on it.

        Earlier figures count where the workload was the same.
        """
        text = ", ".join(f"{key} {value}" for key, value in WORKLOADS[device].items())
        return replace(self, device=device, workload="" if self.matrix else text)

    def to_json(self) -> dict[str, Any]:
        """Return what state.json keeps, so that only the same acceptance is gone on with."""
        return {**asdict(self), "stages": [*self.stages], "left_out": [*self.left_out]}

    @property
    def each_s(self) -> float:
        """How long one figure is measured, in seconds."""
        return 0.5 if self.quick else 1.0

    def group_sizes(self, nodes: int) -> list[int]:
        """Return the sizes of the groups that train; quick: each node alone, and all together."""
        sizes = group_sizes(nodes)
        sizes = sorted({sizes[0], sizes[-1]}) if self.quick else sizes
        tests = ["train_alone" if size == 1 else "train_groups" for size in sizes]
        return [size for size, test in zip(sizes, tests, strict=True) if test not in self.left_out]

    def effort(self, nodes: int) -> Effort:
        """Return how the probe measures so many nodes."""
        return Effort(
            seconds=self.each_s,
            tries=3,
            rounds=rounds_of_pairs(nodes),
            small=True,
            patience_s=600.0,
            stall_s=60.0,
            product_s=self.product_s,
            storage_mib=self.storage_mib,
            left_out=self.left_out,
        )

    def expected_s(self, nodes: int, device: str = "cpu") -> Mapping[str, float]:
        """Return about how long each stage takes on so many healthy nodes."""
        return {
            stage: expected(self, nodes, device)
            for stage, expected in EXPECTED_S.items()
            if stage in self.stages
        }


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `accept` that mean these options, as `to_json` has them.

    A matrix is named without its folder, which may hold a user's name.

    >>> arguments(AcceptOptions(quick=True, left_out=("memory",)).to_json())
    ['--quick', '--leave-out', 'memory']
    """
    node = options.get("node")
    possible = [stage for stage in STAGES if not node or stage not in OF_ALL_NODES]
    stages = options.get("stages") or possible
    argv = ["--quick"] * bool(options.get("quick"))
    argv += ["--node", node] if node else []
    if len(stages) < len(possible):
        argv += [text for stage in stages for text in ("--stage", stage)]
    argv += ["--soak", f"{options['soak_s']:.15g}s"] if options.get("soak_s") else []
    argv += ["--matrix", PurePath(options["matrix"]).name] if options.get("matrix") else []
    return argv + [text for test in options.get("left_out", ()) for text in ("--leave-out", test)]


def _rounds(nodes: int) -> int:
    """Return how many rounds of pairs are measured."""
    return rounds_of_pairs(nodes) or max(1, nodes - 1 + nodes % 2)


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
