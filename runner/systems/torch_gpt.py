"""torch_gpt: our own small GPT-2 trainer in plain PyTorch, launched by torchrun.

Runs on any machine: CPU (gloo) or CUDA (NCCL). The trainer is roles/torch_gpt/files/torch_gpt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from runner.errors import UserError
from runner.parsers.measure import measure
from runner.records import Measurement, ModelShape
from runner.systems import estimates
from runner.systems.base import Command, Estimate, Parameter, System
from runner.systems.pins import pins

if TYPE_CHECKING:
    from runner.cluster import Cluster
    from runner.matrix import Cell
    from runner.plan import NodeContext

# name: layers, hidden, heads, sequence length. 345M to 3.7B as document 004 has them
# (ModelZoo-PyTorch 2e49c279, test/train_full_8p.sh); small is GPT-2's 124M.
MODELS: Mapping[str, tuple[int, int, int, int]] = {
    "gpt2-tiny": (4, 128, 4, 128),
    "gpt2-small": (12, 768, 12, 1024),
    "gpt2-medium": (24, 1024, 16, 1024),
    "gpt-1.3b": (24, 2048, 16, 1024),
    "gpt-2.7b": (32, 2560, 32, 2048),
    "gpt-3.7b": (32, 3072, 32, 2048),
}
PARAMETERS = (
    Parameter("model", str, "gpt2-tiny", "model size by name", choices=tuple(MODELS)),
    Parameter("num_layers", int, None, "transformer layers; default: the model's", minimum=1),
    Parameter("hidden_size", int, None, "width; default: the model's", minimum=1),
    Parameter("num_attention_heads", int, None, "heads; default: the model's", minimum=1),
    Parameter("seq_length", int, None, "tokens a sample; default: the model's", minimum=2),
    Parameter(
        "vocab_size", int, None, "tokens of the vocabulary; default: the dataset's", minimum=2
    ),
    Parameter("micro_batch_size", int, 4, "samples a device and pass", minimum=1),
    Parameter("global_batch_size", int, 16, "samples an iteration, all devices", minimum=1),
    Parameter(
        "zero_stage",
        int,
        0,
        "ZeRO stage: 0 DDP, 1 ZeroRedundancyOptimizer, 2 and 3 FSDP2",
        choices=(0, 1, 2, 3),
    ),
    Parameter("precision", str, "fp32", "arithmetic", choices=("fp32", "bf16", "fp16")),
    Parameter("activation_checkpointing", bool, False, "recompute activations in backward"),
    Parameter("train_iters", int, 50, "iterations of a run", minimum=1),
    Parameter("log_interval", int, 1, "iterations a logged line covers", minimum=1),
    Parameter("lr", float, 1e-3, "peak learning rate", minimum=0),
    Parameter("lr_warmup_iters", int, 0, "iterations of linear warm-up of lr", minimum=0),
    Parameter("weight_decay", float, 0.1, "AdamW's weight decay", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm; 0: no clipping", minimum=0),
    Parameter("split", str, "900,50,50", "train, validation, test shares of the documents"),
    Parameter("eval_iters", int, 0, "validation iterations at the end", minimum=0),
    Parameter("seed", int, 1234, "seed of weights and sample order", minimum=0),
)
DEFAULT_VOCAB_SIZE = 4096  # of the default corpus, for estimates; a log's own figure replaces it


def shape(parameters: Mapping[str, Any]) -> ModelShape:
    """The model's shape: the named size, with any of its numbers overridden."""
    layers, hidden, heads, length = MODELS[parameters["model"]]
    return ModelShape(
        num_layers=parameters["num_layers"] or layers,
        hidden_size=parameters["hidden_size"] or hidden,
        num_attention_heads=parameters["num_attention_heads"] or heads,
        seq_length=parameters["seq_length"] or length,
        vocab_size=parameters["vocab_size"] or DEFAULT_VOCAB_SIZE,
    )


def parallel(cell: Cell) -> dict[str, int]:
    """Data parallel only: every device holds the whole model (or its ZeRO shard)."""
    return {"tensor_parallel": 1, "pipeline_parallel": 1, "data_parallel": cell.world_size}


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse, before anything is touched."""
    model = shape(cell.parameters)
    if model.hidden_size % model.num_attention_heads:
        raise UserError(
            f"num_attention_heads {model.num_attention_heads} does not divide hidden_size"
            f" {model.hidden_size}; change one"
        )
    if cell.parameters["precision"] == "fp16" and cluster.device == "cpu":
        raise UserError("precision fp16 needs a GPU; use bf16 or fp32 on a CPU")
    if not re.fullmatch(r"\d+(\.\d+)?(,\d+(\.\d+)?){2}", cell.parameters["split"]):
        raise UserError(
            f"split is {cell.parameters['split']!r}; write three shares such as 900,50,50"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """One torchrun a node, with its static rank."""
    source = node.home / "src"
    values = dict(cell.parameters)
    model = shape(values)
    argv = [
        f"{node.home}/env/bin/python3",
        "-m",
        "torch.distributed.run",
        *("--nnodes", str(node.nnodes)),
        *("--nproc_per_node", str(node.nproc_per_node)),
        *("--node_rank", str(node.node_rank)),
        *("--master_addr", node.master_address),
        *("--master_port", str(node.master_port)),
        f"{source}/train.py",
        *("--device", node.device),
        *("--data-path", f"{node.dataset}/{cell.dataset}_text_document"),
        *("--num-layers", str(model.num_layers)),
        *("--hidden-size", str(model.hidden_size)),
        *("--num-attention-heads", str(model.num_attention_heads)),
        *("--seq-length", str(model.seq_length)),
    ]
    shown = {"model", "num_layers", "hidden_size", "num_attention_heads", "seq_length"}
    for item in PARAMETERS:
        if item.name in shown:
            continue
        flag = "--" + item.name.replace("_", "-")
        value = values[item.name]
        if item.kind is bool:
            argv += [flag] if value else []
        elif value is not None:
            argv += [flag, str(value)]
    return Command(
        argv=tuple(argv),
        # One thread a process keeps 1 and 2 processes comparable; `env` in a matrix overrides it.
        env={"OMP_NUM_THREADS": "1"} if node.device == "cpu" else {},
        cwd=str(source),
        requires={
            f"{source}/train.py": None,
            f"{node.dataset}/{cell.dataset}_text_document.bin": None,
            f"{node.dataset}/{cell.dataset}_text_document.idx": None,
        },
    )


def parse(logs: Mapping[int, Iterable[bytes]]) -> Measurement:
    """Read the lines `torch_gpt step=...` and `torch_gpt config ...` (node rank 0 prints them)."""
    return measure("torch_gpt", logs)


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Memory of one device and time of one run, from the shape alone."""
    from runner.flops import flops_per_iteration

    model = shape(cell.parameters)
    memory = estimates.memory_mib(
        model,
        micro_batch_size=cell.parameters["micro_batch_size"],
        zero_stage=cell.parameters["zero_stage"],
        data_parallel=cell.world_size,
        half=cell.parameters["precision"] != "fp32",
        activation_checkpointing=cell.parameters["activation_checkpointing"],
    )
    flops = flops_per_iteration(model, cell.parameters["global_batch_size"])
    time = estimates.time_s(flops, cell.parameters["train_iters"], cell.world_size, cluster.device)
    return Estimate(memory_mib=memory, time_s=time, basis="shape and typical rates")


SYSTEM = System(
    name="torch_gpt",
    summary="GPT-2 pre-training in plain PyTorch: DDP, ZeRO 1 to 3, CPU or CUDA",
    launcher="torchrun (static ranks)",
    global_batch="given",
    pins=tuple(pins("torch_gpt")),
    parameters=PARAMETERS,
    check=check,
    command=command,
    parse=parse,
    model=shape,
    estimate=estimate,
    parallel=parallel,
)
