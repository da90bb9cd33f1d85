"""What a system (a trainer that can be benchmarked) must say about itself.

Each `runner/systems/<name>.py` defines one `SYSTEM`; its role `roles/<name>` puts it on the nodes.
docs/adding-a-system.md walks through both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.record import DATA_PARALLEL, Measurement, ModelShape
from runner.terms.run import Command, NodeContext


@dataclass(frozen=True)
class Split:
    """A way in which a trainer spreads one model over devices, such as tensor_parallel.

    `name` is the parameter that says over how many; without one it is 1. `within`: it splits the
    ranks of that other size, such as expert_parallel those of data_parallel, and takes no devices
    of its own.
    """

    name: str
    within: str = ""


def parallel_sizes(cell: Cell, splits: Iterable[Split]) -> dict[str, int]:
    """Return each size by its name; data_parallel is what the others leave of the world size."""
    sizes = {split.name: int(cell.parameters.get(split.name) or 1) for split in splits}
    own = prod(sizes[split.name] for split in splits if not split.within)
    return {DATA_PARALLEL: max(cell.world_size // own, 1), **sizes}


@dataclass(frozen=True)
class Estimate:
    """What a cell is expected to need: `memory_mib` of one device, `time_s` of one run."""

    memory_mib: float
    time_s: float
    basis: str


@dataclass(frozen=True)
class System:
    """A trainer that can be benchmarked.

    `global_batch` is "given" (a parameter) or "derived": micro_batch_size x data parallel x
    gradient_accumulation. `resolve` fills in parameters that others decide, such as a named model's
    sizes, before anything else sees them. `check` raises UserError for a cell that cannot run;
    `command` gives what a node starts; `parse` reads the logs of all nodes (node rank to byte
    blocks); `model` gives the shape for the FLOP formula; `estimate` what a cell needs; `parallel`
    lists how the trainer splits a model beside data parallelism.
    """

    name: str
    summary: str
    launcher: str
    global_batch: str
    pins: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    check: Callable[[Cell, Cluster], None]
    command: Callable[[Cell, NodeContext], Command]
    parse: Callable[[Mapping[int, Iterable[bytes]]], Measurement]
    model: Callable[[Mapping[str, Any]], ModelShape]
    estimate: Callable[[Cell, Cluster], Estimate]
    parallel: tuple[Split, ...] = ()
    devices: tuple[str, ...] = ("cpu", "cuda", "npu")  # what it can train on
    resolve: Callable[[dict[str, Any]], dict[str, Any]] = lambda parameters: parameters

    def batch_size(self, cell: Cell) -> int | None:
        """Return samples an iteration, all devices together; None where the system has no
        such number.
        """
        if self.global_batch == "given":
            return int(cell.parameters["global_batch_size"])
        passes = int(cell.parameters.get("gradient_accumulation") or 1)
        micro = cell.parameters.get("micro_batch_size")
        return None if micro is None else micro * self.sizes(cell)[DATA_PARALLEL] * passes

    def sizes(self, cell: Cell) -> dict[str, int]:
        """Return the cell's parallel sizes by name, data_parallel first."""
        return parallel_sizes(cell, self.parallel)

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((item for item in self.parameters if item.name == name), None)
