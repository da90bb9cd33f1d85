"""What a system (a trainer that can be benchmarked) must say about itself.

Each `runner/systems/<name>.py` defines one `SYSTEM`; its role `roles/<name>` puts it on the nodes.
docs/adding-a-system.md walks through both.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from runner.systems.common.pins import pins
from runner.terms.architecture import Architecture
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.layout import Layout
from runner.terms.record import DATA_PARALLEL, Measurement
from runner.terms.run import Command, NodeContext

if TYPE_CHECKING:
    from runner.logs.kind import Readers


@dataclass(frozen=True)
class Split:
    """A way in which a trainer spreads one model over devices, such as tensor_parallel.

    `name` is the parameter that says over how many, and ends with `_parallel`; without one it is 1.
    `within`: it splits the ranks of these other sizes together, such as expert_parallel those of
    data_parallel, and takes no devices of its own.
    """

    name: str
    within: tuple[str, ...] = ()


def parallel_sizes(cell: Cell, splits: Iterable[Split]) -> dict[str, int]:
    """Return each size by its name, without those that the trainer does not say.

    data_parallel is what the others leave of the world size.
    """
    split_sizes = {split: cell.parameters.get(split.name, 1) for split in splits}
    sizes = {split.name: int(size) for split, size in split_sizes.items() if size is not None}
    model_ranks = prod(
        sizes[split.name] for split in split_sizes if split.name in sizes and not split.within
    )
    return {DATA_PARALLEL: max(cell.world_size // model_ranks, 1), **sizes}


@dataclass(frozen=True)
class Estimate:
    """What a cell is expected to need: `memory_mib` of one device, `time_s` of one run.

    `layout` is what step times are predicted from (runner/tune); None where it is not known.
    """

    memory_mib: float
    time_s: float
    basis: str
    layout: Layout | None = None


@dataclass(frozen=True)
class Profiling:
    """Which profilers a trainer can have, and whether their steps and ranks can be chosen; else the
    whole run and all ranks are traced.
    """

    tools: tuple[str, ...]
    steps: bool = True
    ranks: bool = True


def _nothing_to_refuse(cell: Cell, cluster: Cluster) -> None:
    return None


def _as_given(parameters: dict[str, Any]) -> dict[str, Any]:
    return parameters


def _on_nothing_else(cell: Cell) -> Mapping[str, str]:
    return {}


def _with_a_group(pattern: object) -> str:
    """Return a matrix's own pattern of a step, where Python's `re` can use it."""
    try:
        groups = re.compile(pattern).groups if isinstance(pattern, str) else 0
    except re.error:
        return ""
    return str(pattern) if groups else ""


def _never(parameters: Mapping[str, Any]) -> bool:
    return False


def _precision(parameters: Mapping[str, Any]) -> str | None:
    return parameters.get("precision")


def _attention_backend(cell: Cell) -> str | None:
    return cell.parameters.get("attention_backend")


@dataclass(frozen=True)
class System:
    """A trainer that can be benchmarked. What has a default may be left out.

    `name` is that of the module and of the role, `summary` and `launcher` are for people.
    `parameters` is what a matrix may set. One `global_batch_size` is the samples of an iteration;
    without it, or where it is None, they are micro_batch_size x data parallel x
    gradient_accumulation.
    `command` gives what a node starts.
    `check` raises UserError for a cell that cannot run.
    `resolve` fills in parameters that others decide, such as a named model's sizes, before anything
    else sees them.
    `parallel` lists how the trainer splits a model, beside data parallelism.
    `model` gives the architecture that it trains; without it there are no FLOPs and no MFU.
    `arithmetic` says what matrices are multiplied in (bf16, fp16, tf32, fp32 or MIXED_FP8); None:
    not known.
    `attention` says what computes it: unfused (step by step), sdpa, flash; None: not known.
    `estimate` says what a cell will need, for a dry run.
    `devices` are those that it can train on.
    `relies_on` names what else of the nodes a cell's figures hang on, beside its pin set and its
    dataset: the path of a `folder` with what it runs, that of a `python`; a `program` is named
    alone, and its cells are `unpinned`.
    `readers` gives what reads a cell's log; left out, the kinds of lines that name the system.
    `samples` gives the samples of an iteration and `tokens` those of a sample, where neither
    parameters nor the model say them. `own_keys`: a matrix may set keys of its own.
    `historic`: it serves to reproduce a documented benchmark.
    `layout_free`: of a seed its first weights are the same however it splits the model.
    `profiling`: what `profile` of a cell may be; its command then has the options.
    `resumes` says of a cell's parameters whether it goes on from a checkpoint, `checkpoint_bytes`
    estimates the bytes of one.
    """

    name: str
    summary: str
    launcher: str
    parameters: tuple[Parameter, ...]
    command: Callable[[Cell, NodeContext], Command]
    check: Callable[[Cell, Cluster], None] = _nothing_to_refuse
    resolve: Callable[[dict[str, Any]], dict[str, Any]] = _as_given
    parallel: tuple[Split, ...] = ()
    model: Callable[[Mapping[str, Any]], Architecture | None] | None = None
    arithmetic: Callable[[Mapping[str, Any]], str | None] = _precision
    attention: Callable[[Cell], str | None] = _attention_backend
    estimate: Callable[[Cell, Cluster], Estimate] | None = None
    devices: tuple[str, ...] = ("cpu", "cuda", "npu")
    relies_on: Callable[[Cell], Mapping[str, str]] = _on_nothing_else
    readers: "Callable[[Mapping[str, Any]], Readers] | None" = None
    samples: Callable[[Cell], int | None] | None = None
    tokens: Callable[[Mapping[str, Any]], int | None] | None = None
    own_keys: bool = False
    layout_free: bool = False
    historic: bool = False
    profiling: Profiling | None = None
    resumes: Callable[[Mapping[str, Any]], bool] = _never
    checkpoint_bytes: Callable[[Mapping[str, Any]], float] | None = None

    @property
    def pins(self) -> tuple[str, ...]:
        """The pin sets of its role, the first the default; none where inventories declare them."""
        return tuple(pins(self.name))

    def readers_of(self, parameters: Mapping[str, Any]) -> "Readers":
        """Return what reads the logs of a cell with these parameters."""
        from runner.logs.kinds import readers_of  # numpy, which a list of systems can do without

        return self.readers(parameters) if self.readers else readers_of(self.name)

    def parse(self, logs: Mapping[int, Iterable[bytes]], cell: Cell | None = None) -> Measurement:
        """Read the logs of all nodes (node rank to byte blocks) by the kinds of its lines.

        What `cell` says of itself turns tokens/s of a log into samples/s.
        """
        from runner.logs.measure import measure
        from runner.logs.run_sizes import Known

        if cell is None:
            return measure(self.readers_of({}), logs)
        cell = self.typed(cell)
        batch = self.batch_size(cell) if self.own_keys else None
        run_sizes = Known(self.tokens_per_sample(cell), cell.world_size, batch)
        return measure(self.readers_of(cell.parameters), logs, run_sizes)

    def counter(self, parameters: Mapping[str, Any]) -> str:
        """Return what finds the number of an iteration in a line of the log, by one group.

        A regular expression of Python's, by which nodes know when a fault is due; "" where none is
        known.
        """
        log = parameters.get("log")
        if isinstance(log, dict):
            return _with_a_group(log.get("step"))
        kinds = self.readers_of(parameters).values()
        counters = (getattr(kind, "counter", b"") for kind in kinds)
        return next(filter(None, counters), b"").decode()

    def typed(self, cell: Cell) -> Cell:
        """Return a recorded cell with its parameters typed; see `recorded`."""
        return replace(cell, parameters=self.recorded(cell.parameters, f"cell {cell.name}"))

    def tokens_per_sample(self, cell: Cell) -> int | None:
        """Return the tokens of a sample; None where nothing says it."""
        model = self.architecture(cell)
        if model is not None:
            return model.seq_length
        return self.tokens(cell.parameters) if self.tokens else None

    def recorded(self, parameters: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return a recorded cell's parameters, typed; those younger than it are what it did then.

        Raises UserError for values that no matrix could give.
        """
        typed_values = {item.name: item.recorded(parameters, where) for item in self.parameters}
        return self.resolve({**parameters, **typed_values})

    def fingerprinted(self, cell: Cell) -> tuple[str, ...]:
        """Name what of the nodes a cell's figures hang on, as campaign.json's environment has it.

        Each is of one kind: system, dataset, or what `relies_on` has.
        """
        pin = f"{cell.system}/{cell.pin}" if cell.pin else ""
        contents = {"system": pin, "dataset": cell.dataset, **self.relies_on(cell)}
        return tuple(
            f"{kind} {content_name}" for kind, content_name in contents.items() if content_name
        )

    def architecture(self, cell: Cell) -> Architecture | None:
        """Return what the cell trains; None where the system does not say."""
        return None if self.model is None else self.model(cell.parameters)

    def batch_size(self, cell: Cell) -> int | None:
        """Return samples an iteration of all devices; None where the system has no such number."""
        if self.samples and (count := self.samples(cell)) is not None:
            return count
        if (size := self.given_batch_size(cell)) is not None:
            return size
        passes = int(cell.parameters.get("gradient_accumulation") or 1)
        micro = cell.parameters.get("micro_batch_size")
        return None if micro is None else micro * self.sizes(cell)[DATA_PARALLEL] * passes

    def given_batch_size(self, cell: Cell) -> int | None:
        """Return samples an iteration where a matrix gives them."""
        if self.parameter("global_batch_size") is None:
            return None
        size: int | None = cell.parameters["global_batch_size"]
        return size

    def sizes(self, cell: Cell) -> dict[str, int]:
        """Return the cell's parallel sizes by name, data_parallel first."""
        return parallel_sizes(cell, self.parallel)

    def parameter(self, name: str) -> Parameter | None:
        """Return the parameter of that name, or None."""
        return next((item for item in self.parameters if item.name == name), None)
