"""The keys of `system: command`, and what its words in braces may stand for."""

from collections.abc import Mapping
from typing import Any

from runner.systems.common import gpt
from runner.systems.common.launchers import SRUN
from runner.systems.common.system import parallel_sizes
from runner.terms.cell import Cell, Parameter

PARALLEL = gpt.WITH_CONTEXT
NODE, PROCESSES, FIRST_NODE = "node", "processes", "first_node"
HOSTFILE = "hostfile"
# How a cell is started and read;
RUN = (
    Parameter("argv", list, None, "what a node starts, word by word, with {words} of the matrix"),
    Parameter(
        "cwd", str, None, "the trainer's folder on each node; default: the source of the pin set"
    ),
    Parameter(
        "launcher",
        str,
        NODE,
        "node: argv starts once a node; processes: once a device, with RANK, LOCAL_RANK,"
        " WORLD_SIZE, MASTER_ADDR and MASTER_PORT; first_node: on the first node alone, which"
        " starts the others over ssh; srun: once a device by Slurm, with the same variables and"
        " Slurm's own",
        choices=(NODE, PROCESSES, FIRST_NODE, SRUN),
    ),
    Parameter("environment", dict, None, "{python: /path/of/python}: whose programs argv starts"),
    Parameter(
        "log", object, None, "a family of lines (docs/parsers.md), or patterns: {step: '...', ...}"
    ),
    Parameter("samples_per_step", object, None, "samples an iteration, all devices: a product"),
    Parameter("tokens_per_sample", object, None, "tokens of a sample: a product"),
    Parameter("model_flops_per_token", object, None, "FLOPs of a token, forward and backward"),
    Parameter(
        "architecture", dict, None, "the model's sizes (num_layers, hidden_size, ...), for the MFU"
    ),
    Parameter("parameters", dict, {}, "keys of the matrix's own, with their defaults"),
)
# and what the rest of the program knows of a trainer, if the matrix says it: words, like its own.
SIZES = (
    Parameter("micro_batch_size", int, None, "samples per device and pass", minimum=1),
    Parameter("gradient_accumulation", int, None, "passes an iteration", minimum=1),
    *(
        Parameter(split.name, int, None, "devices that the trainer splits a model over", minimum=1)
        for split in PARALLEL
    ),
    Parameter(
        "precision",
        str,
        None,
        "what matrices are multiplied in, for the MFU",
        choices=("bf16", "fp16", "tf32", "fp32"),
    ),
    Parameter("activation_checkpointing", bool, None, "recompute activations in backward"),
    Parameter("train_iters", int, None, "iterations of a run; default: as its log says", minimum=1),
    Parameter("log_interval", int, None, "iterations a logged line covers", minimum=1),
    Parameter("seed", int, None, "seed; `seeds` of the matrix sets it", minimum=0),
    Parameter(
        "checkpoint_interval", int, None, "iterations between two checkpoints, a word", minimum=1
    ),
    Parameter("resumes", bool, None, "true: it goes on from what is in {checkpoints}, if anything"),
)
ABOUT, SIZED = {item.name for item in RUN}, {item.name for item in SIZES}
FACTS: Mapping[str, str] = {
    "nodes": "nodes of the cell",
    "node_rank": "number of this node, from 0",
    "devices_per_node": "devices per node, and processes per node",
    "world_size": "nodes x devices_per_node",
    "data_parallel": "what the parallel sizes leave of the world size",
    "device": "cuda, npu or cpu, as the inventory says",
    "master_addr": "address of the first node",
    "master_port": "a free port of the first node, of this run alone",
    "run_dir": "folder of the run on the node, for what the trainer writes",
    "scratch": "the run's folder on a disk of the node's own, where nodes share their root",
    "python": "interpreter of `environment`, or of the pin set",
    "dataset": "folder of the dataset that the cell names with `dataset`",
    "rank": "number of the process, from 0 (launcher processes)",
    "local_rank": "its number on the node, from 0 (launcher processes)",
    "checkpoints": "folder for checkpoints that all nodes see, empty at first; what an attempt"
    " leaves there the next one finds (with resumes, faults or recovery)",
    HOSTFILE: "file with the nodes' addresses and devices (launcher first_node)",
}


def own_keys(cell: Cell) -> dict[str, Any]:
    """Return the cell's values that a word can be made of: the matrix's own, and known sizes."""
    return {
        key: value
        for key, value in cell.parameters.items()
        if key not in ABOUT and value is not None
    }


def sizes(cell: Cell) -> dict[str, int]:
    """Return the facts that are the same on every node, for products."""
    parallel = parallel_sizes(cell, PARALLEL)
    return {
        "nodes": cell.nodes,
        "devices_per_node": cell.devices_per_node,
        "world_size": cell.world_size,
        "data_parallel": parallel["data_parallel"],
    }
