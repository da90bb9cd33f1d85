"""torch_gpt: our own small GPT-2 trainer in plain PyTorch, or with DeepSpeed as its engine.

Runs on any machine: CPU (gloo) or CUDA (NCCL). The trainer is roles/torch_gpt/files/torch_gpt.
"""

import re
from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import gpt, launchers
from runner.systems.common.launchers import DEEPSPEED
from runner.systems.common.pins import pins
from runner.systems.common.system import Estimate, System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

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
TORCHRUN = "torchrun"
PARAMETERS = (
    Parameter("model", str, "gpt2-tiny", "model size by name", choices=tuple(MODELS)),
    Parameter("num_layers", int, None, "transformer layers; default: the model's", minimum=1),
    Parameter("hidden_size", int, None, "width; default: the model's", minimum=1),
    Parameter("num_attention_heads", int, None, "heads; default: the model's", minimum=1),
    Parameter("seq_length", int, None, "tokens a sample; default: the model's", minimum=2),
    Parameter(
        "vocab_size", int, None, "tokens of the vocabulary; default: the dataset's", minimum=2
    ),
    Parameter("micro_batch_size", int, 4, "samples a data parallel rank and pass", minimum=1),
    Parameter("global_batch_size", int, 16, "samples an iteration, all devices", minimum=1),
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    Parameter("engine", str, "torch", "what shares out and updates", choices=("torch", DEEPSPEED)),
    Parameter(
        "launcher", str, TORCHRUN, "what starts the processes", choices=(TORCHRUN, DEEPSPEED)
    ),
    Parameter(
        "zero_stage",
        int,
        0,
        "ZeRO stage: DeepSpeed's, or torch's: 0 DDP, 1 ZeroRedundancyOptimizer, 2 and 3 FSDP2",
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


def shape(parameters: Mapping[str, Any]) -> Decoder:
    """Return the model's shape: the named size, with any of its numbers overridden."""
    layers, hidden, heads, length = MODELS[parameters["model"]]
    return Decoder(
        num_layers=parameters["num_layers"] or layers,
        hidden_size=parameters["hidden_size"] or hidden,
        num_attention_heads=parameters["num_attention_heads"] or heads,
        seq_length=parameters["seq_length"] or length,
        vocab_size=parameters["vocab_size"] or DEFAULT_VOCAB_SIZE,
    )


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse, before anything is touched."""
    model = shape(cell.parameters)
    if model.hidden_size % model.num_attention_heads:
        raise UserError(
            f"num_attention_heads {model.num_attention_heads} does not divide hidden_size"
            f" {model.hidden_size}; change one"
        )
    _check_parallel(cell, model)
    if cell.parameters["precision"] == "fp16" and cluster.device == "cpu":
        raise UserError("precision fp16 needs a GPU; use bf16 or fp32 on a CPU")
    if not re.fullmatch(r"\d+(\.\d+)?(,\d+(\.\d+)?){2}", cell.parameters["split"]):
        raise UserError(
            f"split is {cell.parameters['split']!r}; write three shares such as 900,50,50"
        )
    _check_deepspeed(cell, cluster)


def _check_parallel(cell: Cell, model: Decoder) -> None:
    """Refuse what the trainer does not split, or not together."""
    values = cell.parameters
    tensor, pipeline = values["tensor_parallel"], values["pipeline_parallel"]
    stage = values["zero_stage"]
    gpt.check_shape(model, pipeline=pipeline)
    if values["engine"] == DEEPSPEED and tensor * pipeline > 1:
        raise UserError(
            "engine deepspeed is data parallel only here; take engine: torch, or set"
            " tensor_parallel and pipeline_parallel to 1"
        )
    if tensor > 1 and stage == 1:
        raise UserError("tensor_parallel goes with zero_stage 0, 2 and 3; change zero_stage")
    if pipeline > 1 and stage:
        raise UserError("pipeline_parallel goes with zero_stage 0 alone; change one")
    if pipeline > 1 and values["eval_iters"]:
        raise UserError("pipeline_parallel has no validation; set eval_iters: 0")
    micro = values["micro_batch_size"] * gpt.parallel(cell)["data_parallel"]
    if values["global_batch_size"] // micro < pipeline:
        raise UserError(
            f"global_batch_size {values['global_batch_size']} makes fewer passes than"
            f" pipeline_parallel {pipeline}; make it {micro * pipeline} or more"
        )


def _check_deepspeed(cell: Cell, cluster: Cluster) -> None:
    """Refuse DeepSpeed without a pin set that has it, and what its launcher cannot do."""
    values = cell.parameters
    wants = [name for name in ("engine", "launcher") if values[name] == DEEPSPEED]
    having = [name for name, pin in pins("torch_gpt").items() if "deepspeed" in pin]
    if wants and cell.pin not in having:
        raise UserError(
            f"{wants[0]} deepspeed is not in pin {cell.pin}; set pin: {having[0]}, and have it set"
            " up (torch_gpt_pin_sets)"
        )
    if values["launcher"] == DEEPSPEED:
        launchers.check_deepspeed(cell, cluster, keeps_signs=True)


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one torchrun a node, with its static rank, or the deepspeed launcher on the first."""
    source = node.home / "src"
    argv = [f"{source}/train.py", *_options(cell, node)]
    data = f"{node.dataset}/{cell.dataset}_text_document"
    requires = dict.fromkeys((f"{source}/train.py", f"{data}.bin", f"{data}.idx"))
    # One thread a process keeps 1 and 2 processes comparable; `env` in a matrix overrides it.
    env = {"OMP_NUM_THREADS": "1"} if node.device == "cpu" else {}
    if DEEPSPEED in (cell.parameters["engine"], cell.parameters["launcher"]):
        env |= {"DS_ACCELERATOR": node.device}
    if cell.parameters["launcher"] == DEEPSPEED:
        argv.insert(0, "--no_local_rank")  # the trainer takes it from the environment
        return launchers.deepspeed(node, argv, env, {}, requires, quotes=True)
    torchrun = [
        gpt.python(node),
        "-m",
        "torch.distributed.run",
        *("--nnodes", str(node.nnodes)),
        *("--nproc_per_node", str(node.nproc_per_node)),
        *("--node_rank", str(node.node_rank)),
        *("--master_addr", node.master_address),
        *("--master_port", node.master_port),
    ]
    return Command(argv=(*torchrun, *argv), env=env, cwd=str(source), requires=requires)


def _options(cell: Cell, node: NodeContext) -> list[str]:
    values = dict(cell.parameters)
    model = shape(values)
    argv = [
        *("--device", node.device),
        *("--data-path", f"{node.dataset}/{cell.dataset}_text_document"),
        *("--num-layers", str(model.num_layers)),
        *("--hidden-size", str(model.hidden_size)),
        *("--num-attention-heads", str(model.num_attention_heads)),
        *("--seq-length", str(model.seq_length)),
    ]
    shown = {"model", "num_layers", "hidden_size", "num_attention_heads", "seq_length", "launcher"}
    for item in PARAMETERS:
        if item.name in shown:
            continue
        flag = "--" + item.name.replace("_", "-")
        value = values[item.name]
        if item.kind is bool:
            argv += [flag, "full"] if value else []
        elif value is not None:
            argv += [flag, str(value)]
    return argv


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run, from the shape alone."""
    model = shape(cell.parameters)
    return gpt.estimate(cell, cluster, model=model, flash_attention=True)


def arithmetic(parameters: Mapping[str, Any]) -> str:
    """Name the precision; of fp32 train.py has PyTorch multiply in tf32 where the device can."""
    precision = str(parameters["precision"])
    return "tf32" if precision == "fp32" else precision


SYSTEM = System(
    name="torch_gpt",
    summary="GPT-2 in PyTorch or DeepSpeed: data, tensor, pipeline parallel, ZeRO; CPU or CUDA",
    launcher="torchrun (static ranks), or deepspeed with a hostfile",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=shape,
    estimate=estimate,
    parallel=gpt.PARALLEL,
    arithmetic=arithmetic,
    devices=("cpu", "cuda"),
)
