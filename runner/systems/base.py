"""What a system (a trainer that can be benchmarked) must say about itself.

Each `runner/systems/<name>.py` defines one `SYSTEM`; its role `roles/<name>` puts it on the nodes.
docs/adding-a-system.md walks through both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runner.errors import UserError
from runner.records import Measurement, ModelShape

if TYPE_CHECKING:
    from runner.cluster import Cluster
    from runner.matrix import Cell
    from runner.plan import NodeContext

# What `parallel` of a system returns; their product is the world size.
PARALLEL_SIZES = ("data_parallel", "tensor_parallel", "pipeline_parallel")


@dataclass(frozen=True)
class Parameter:
    """One key that a matrix may set for a system.

    `kind` is int, float, bool or str; `default` None means that the system derives it. `help`
    says what it is, with its unit.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    minimum: float | None = None

    def read(self, value: Any, where: str) -> Any:
        """The value, typed. Raises UserError naming the key, what is wrong and what it may be."""
        key = f"{where}: {self.name}"
        if value is None:
            return self.default
        if self.kind is not bool and isinstance(value, bool):
            raise UserError(f"{key} is {str(value).lower()}; it must be {self.wanted()}")
        if self.kind is float and isinstance(value, int | str):
            try:
                value = float(value)
            except (ValueError, OverflowError):
                raise UserError(f"{key} is {value!r}; it must be {self.wanted()}") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{key} is {value}; it must be {self.wanted()}")
        if not isinstance(value, self.kind):
            raise UserError(f"{key} is {value!r}; it must be {self.wanted()}")
        if self.choices and value not in self.choices:
            raise UserError(f"{key} is {value!r}; it must be {self.wanted()}")
        if self.minimum is not None and isinstance(value, int | float) and value < self.minimum:
            raise UserError(f"{key} is {value}; it must be {self.wanted()}")
        return value

    def wanted(self) -> str:
        """What the key may be, for people."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        name = {
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            str: "text",
            list: "a list",
            dict: "a mapping",
        }
        if self.minimum is not None:
            return f"{name[self.kind]} of at least {self.minimum:g}"
        return name[self.kind]


@dataclass(frozen=True)
class Command:
    """What one node starts: by exec, without a shell.

    `argv[0]` is an absolute path on the node. An empty `argv` is a node whose processes another
    node's launcher starts (deepspeed, over ssh): it prepares its files, and waits for the end.
    `env` is added to a small base environment (HOME, USER, LANG); nothing else is inherited.
    `files` are written into the run's folder on the node first (name to text). `requires` must
    exist before anything starts (path to bytes, or None). `ports` must be free on this node, beside
    the run's own. `picks_devices`: argv names the cell's `device_ids` itself, so that no
    CUDA_VISIBLE_DEVICES is set, which such a launcher would count them within. `ssh`: the processes
    of other nodes are started over ssh.

    `serves`: this process lets another node's launcher in, and ends when that has ended. `after`
    runs once all processes have ended, however they did (runner/containers.py sets both).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, int | None] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    picks_devices: bool = False
    ssh: bool = False
    serves: bool = False
    after: tuple[tuple[str, ...], ...] = ()


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
    all of PARALLEL_SIZES.
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
    parallel: Callable[[Cell], Mapping[str, int]]
    devices: tuple[str, ...] = ("cpu", "cuda", "npu")  # what it can train on
    resolve: Callable[[dict[str, Any]], dict[str, Any]] = lambda parameters: parameters

    def batch_size(self, cell: Cell) -> int | None:
        """Samples an iteration, all devices together; None where the system has no such number."""
        if self.global_batch == "given":
            return int(cell.parameters["global_batch_size"])
        passes = int(cell.parameters.get("gradient_accumulation") or 1)
        micro = cell.parameters.get("micro_batch_size")
        return None if micro is None else micro * self.parallel(cell)["data_parallel"] * passes

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, or None."""
        return next((item for item in self.parameters if item.name == name), None)
