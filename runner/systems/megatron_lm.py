"""megatron_lm: DeepSpeedExamples' Megatron-LM, as documents 002 and 003 run it.

Two trainers: v1.1.5 with 3D parallelism (document 002), and the older one at a79272cc that document
003 compares OneFlow with. docs/systems/megatron_lm.md has each difference from upstream's scripts.
"""

import json
from typing import Any

from runner.base.errors import UserError
from runner.systems.common import gpt, launchers
from runner.systems.common.launchers import DEEPSPEED, LAUNCH
from runner.systems.common.system import System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

OLD = "a79272cc"
FOLDERS = {OLD: "Megatron-LM"}
FOLDER = "Megatron-LM-v1.1.5-3D_parallelism"

PARAMETERS = (
    Parameter("launcher", str, LAUNCH, "what starts the processes", choices=(LAUNCH, DEEPSPEED)),
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    Parameter("num_layers", int, 24, "transformer layers", minimum=1),
    Parameter("hidden_size", int, 1024, "width", minimum=1),
    Parameter("num_attention_heads", int, 16, "heads", minimum=1),
    Parameter("seq_length", int, 1024, "tokens per sample, and positions", minimum=2),
    Parameter("micro_batch_size", int, 8, "samples per data parallel rank and pass", minimum=1),
    Parameter(
        "gradient_accumulation", int, 1, "passes an iteration, with pipeline_parallel", minimum=1
    ),
    Parameter("train_iters", int, 500, "iterations of a run", minimum=1),
    Parameter("lr", float, 0.00015, "peak learning rate", minimum=0),
    Parameter("min_lr", float, 1.0e-5, "least learning rate", minimum=0),
    Parameter("lr_decay_style", str, "cosine", "decay", choices=("constant", "linear", "cosine")),
    Parameter("lr_decay_iters", int, 320000, "iterations of decay", minimum=1),
    Parameter("lr_warmup_fraction", float, 0.01, "share of the decay that warms up", minimum=0),
    Parameter("weight_decay", float, 0.01, "weight decay", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm", minimum=0),
    Parameter("precision", str, "fp16", "arithmetic", choices=("fp16", "fp32")),
    Parameter("activation_checkpointing", bool, True, "recompute activations in backward"),
    Parameter("checkpoint_num_layers", int, None, "layers a recomputed block; default: 1"),
    Parameter("deepspeed", str, "off", "on: DeepSpeed's engine", choices=("on", "off")),
    Parameter("zero_stage", int, 0, "DeepSpeed's ZeRO stage", choices=(0, 1, 2)),
    Parameter("reduce_scatter", bool, True, "ZeRO: reduce-scatter rather than all-reduce"),
    Parameter("contiguous_gradients", bool, True, "ZeRO: gradients in one buffer"),
    Parameter("reduce_bucket_size", int, 50_000_000, "ZeRO: elements a reduction", minimum=1),
    Parameter("allgather_bucket_size", int, 50_000_000, "ZeRO: elements a gather", minimum=1),
    Parameter("partition_activations", bool, False, "split kept activations over tensor_parallel"),
    Parameter("checkpoint_in_cpu", bool, False, "keep partitioned activations in host memory"),
    Parameter("synchronize_each_layer", bool, False, "synchronize after each recomputed layer"),
    Parameter("contiguous_checkpointing", bool, False, "kept activations in one buffer"),
    Parameter("profile_backward", bool, False, "time the backward pass of recomputed layers"),
    Parameter("steps_per_print", int, 1, "iterations between DeepSpeed's own lines", minimum=1),
    Parameter("wall_clock_breakdown", bool, True, "DeepSpeed times each part of an iteration"),
    Parameter("split", str, "900,50,50", "train, validation, test shares of the documents"),
    Parameter("log_interval", int, 10, "iterations a logged line covers", minimum=1),
    Parameter("eval_interval", int, 1000, "iterations between evaluations", minimum=1),
    Parameter("eval_iters", int, 10, "iterations of an evaluation", minimum=0),
    Parameter("save_interval", int, 10000, "iterations between checkpoints", minimum=1),
    gpt.CHECKPOINT,
    Parameter("tensorboard", bool, False, "write TensorBoard files into the run's folder"),
    Parameter("seed", int, None, "seed; default: 1234", minimum=0),
)
# In the order of ds_pretrain_gpt2.sh.
GPT_OPTIONS = (
    ("--model-parallel-size", "tensor_parallel"),
    ("--num-layers", "num_layers"),
    ("--hidden-size", "hidden_size"),
    ("--num-attention-heads", "num_attention_heads"),
    ("--seq-length", "seq_length"),
    ("--max-position-embeddings", "seq_length"),
    ("--batch-size", "micro_batch_size"),
    ("--train-iters", "train_iters"),
    ("--lr-decay-iters", "lr_decay_iters"),
    ("--split", "split"),
    ("--lr", "lr"),
    ("--lr-decay-style", "lr_decay_style"),
    ("--min-lr", "min_lr"),
    ("--weight-decay", "weight_decay"),
    ("--clip-grad", "clip_grad"),
    ("--warmup", "lr_warmup_fraction"),
    ("--checkpoint-activations", "activation_checkpointing"),
    ("--checkpoint-num-layers", "checkpoint_num_layers"),
    ("--log-interval", "log_interval"),
    ("--eval-interval", "eval_interval"),
    ("--eval-iters", "eval_iters"),
    ("--seed", "seed"),
)
ZERO_OPTIONS = (
    ("--zero-stage", "zero_stage"),
    ("--zero-reduce-bucket-size", "reduce_bucket_size"),
    ("--zero-allgather-bucket-size", "allgather_bucket_size"),
    ("--zero-contigious-gradients", "contiguous_gradients"),
    ("--zero-reduce-scatter", "reduce_scatter"),
)
ACTIVATION_OPTIONS = (
    ("--partition-activations", "partition_activations"),
    ("--checkpoint-in-cpu", "checkpoint_in_cpu"),
    ("--synchronize-each-layer", "synchronize_each_layer"),
    ("--contigious-checkpointing", "contiguous_checkpointing"),
    ("--profile-backward", "profile_backward"),
)
# What the older trainer does not have.
NOT_OLD = frozenset({"lr_decay_iters", "min_lr", "checkpoint_num_layers"})


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse, or silently do otherwise."""
    values = cell.parameters
    gpt.check_nodes(cell)
    pipeline = values["pipeline_parallel"]
    gpt.check_shape(gpt.shape(values), pipeline=pipeline)
    uses_deepspeed = values["deepspeed"] == "on"
    if not uses_deepspeed:
        wants = [name for _, name in ACTIVATION_OPTIONS if values[name]]
        wants += ["zero_stage"] if values["zero_stage"] else []
        wants += ["pipeline_parallel"] if pipeline > 1 else []
        if wants:
            raise UserError(f"{wants[0]} needs DeepSpeed; set deepspeed: on, or leave it out")
    if values["gradient_accumulation"] > 1 and pipeline == 1:
        raise UserError("gradient_accumulation needs pipeline_parallel of at least 2")
    if pipeline > 1 and values["zero_stage"] > 1:
        raise UserError(
            f"zero_stage {values['zero_stage']} and pipeline_parallel {pipeline} exclude each other"
            " in DeepSpeed; set one of them to 1"
        )
    if values["contiguous_checkpointing"] and not values["partition_activations"]:
        raise UserError("contiguous_checkpointing needs partition_activations; set both")
    if values["checkpoint_in_cpu"] and not values["partition_activations"]:
        raise UserError("checkpoint_in_cpu needs partition_activations; set both")
    if cell.pin == OLD:
        if pipeline > 1 or not uses_deepspeed or values["launcher"] != DEEPSPEED:
            raise UserError(
                f"pin {OLD} is for document 003's comparison: launcher: deepspeed, deepspeed: on,"
                " pipeline_parallel: 1; take another pin for the rest"
            )
        if values["tensorboard"]:
            raise UserError(f"pin {OLD} writes no TensorBoard files; set tensorboard: false")
    if values["launcher"] == DEEPSPEED:
        launchers.check_deepspeed(cell, cluster, keeps_signs=False)


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one torch.distributed.launch a node, or the deepspeed launcher on the first."""
    values = cell.parameters
    folder = f"{node.home}/src/{FOLDERS.get(cell.pin, FOLDER)}"
    script = f"{folder}/pretrain_gpt2.py"
    if cell.pin == OLD:
        options, requires, more = _old_options(cell, node)
    else:
        files = gpt.data(cell, node)
        options, requires, more = _options(cell, node, files), files.required, {}
    requires = {script: None, **requires}
    written: dict[str, str] = {}
    if values["deepspeed"] == "on":
        options += ["--deepspeed", "--deepspeed_config", f"{node.run_dir}/ds_config.json"]
        written["ds_config.json"] = ds_config(cell)
        if cell.pin != OLD:
            options += gpt.options(values, ZERO_OPTIONS)
            options += gpt.options(values, ACTIVATION_OPTIONS)
    env = {**gpt.cuda_home("megatron_lm", cell.pin), **more}
    if values["launcher"] == DEEPSPEED:
        argv = [script, *options]
        return launchers.deepspeed(node, argv, env, written, requires, quotes=False)
    argv = [*launchers.torch(LAUNCH, node, gpt.python(node)), script, *options]
    return Command(argv=tuple(argv), env=env, cwd=folder, files=written, requires=requires)


def _options(cell: Cell, node: NodeContext, files: gpt.Data) -> list[str]:
    values = cell.parameters
    argv = gpt.options(values, GPT_OPTIONS)
    argv += ["--data-path", files.prefix]
    argv += ["--vocab-file", files.vocab, "--merge-file", files.merges]
    argv += ["--data-impl", "mmap", "--distributed-backend", "nccl"]
    argv += ["--fp16"] if values["precision"] == "fp16" else []
    if values["pipeline_parallel"] > 1:
        argv += ["--pipe-parallel-size", str(values["pipeline_parallel"])]
        argv += ["--gas", str(values["gradient_accumulation"])]
    if values["checkpoint"] == "documented":
        saved = f"{node.run_dir}/checkpoints"
        argv += ["--save", saved, "--load", saved, "--save-interval", str(values["save_interval"])]
    if values["tensorboard"]:
        argv += ["--tensorboard-dir", node.events]
    return argv


def _old_options(
    cell: Cell, node: NodeContext
) -> tuple[list[str], dict[str, int | None], dict[str, str]]:
    """Return Options, required files and variables of the trainer that reads text (a79272cc)."""
    values = cell.parameters
    text = f"{node.dataset}/{cell.dataset}.jsonl"
    argv = gpt.options(values, [pair for pair in GPT_OPTIONS if pair[1] not in NOT_OLD])
    argv += ["--resume-dataloader", "--train-data", text, "--text-key", "text", "--loose-json"]
    argv += ["--lazy-loader", "--tokenizer-type", "GPT2BPETokenizer"]
    argv += ["--distributed-backend", "nccl", "--no-load-optim"]
    argv += ["--fp16"] if values["precision"] == "fp16" else []
    argv += ["--deepspeed-activation-checkpointing"] if values["activation_checkpointing"] else []
    if values["checkpoint"] == "documented":
        argv += ["--save", f"{node.run_dir}/checkpoints"]
    files = (text, f"{node.dataset}/vocab.json", f"{node.dataset}/merges.txt")
    return argv, dict.fromkeys(files), {"GPT2_VOCABULARY": str(node.dataset)}


def ds_config(cell: Cell) -> str:
    """Return DeepSpeed's configuration as upstream's examples have it, with this cell's batch and
    stage.

    Upstream's says train_batch_size 2048, stage 2 and its buckets whatever the script says.
    """
    values = cell.parameters
    data_parallel = gpt.parallel(cell)["data_parallel"]
    passes = values["gradient_accumulation"]
    content: dict[str, Any] = {
        "train_batch_size": values["micro_batch_size"] * data_parallel * passes,
        "gradient_accumulation_steps": passes,
        "steps_per_print": values["steps_per_print"],
        "zero_optimization": {"stage": values["zero_stage"]},
        "optimizer": {"type": "Adam", "params": {"lr": values["lr"]}},
        "gradient_clipping": values["clip_grad"],
        "fp16": {
            "enabled": values["precision"] == "fp16",
            "loss_scale": 0,
            "loss_scale_window": 1000,
            "hysteresis": 2,
            "min_loss_scale": 1,
        },
        "wall_clock_breakdown": values["wall_clock_breakdown"],
        "zero_allow_untested_optimizer": cell.pin == OLD,
    }
    if cell.pin == OLD:
        content["optimizer"]["params"]["weight_decay"] = values["weight_decay"]
        content["activation_checkpointing"] = {
            "partition_activations": values["activation_checkpointing"],
            "contiguous_memory_optimization": False,
        }
    else:
        content["optimizer"]["params"] |= {"max_grad_norm": 1.0, "betas": [0.9, 0.95]}
        if values["zero_stage"]:
            content["zero_optimization"] |= {
                "allgather_partitions": True,
                "reduce_scatter": values["reduce_scatter"],
                "allgather_bucket_size": values["allgather_bucket_size"],
                "reduce_bucket_size": values["reduce_bucket_size"],
                "contiguous_gradients": values["contiguous_gradients"],
                "overlap_comm": True,
            }
    return json.dumps(content, indent=2) + "\n"


SYSTEM = System(
    name="megatron_lm",
    historic=True,
    summary="DeepSpeedExamples' Megatron-LM GPT-2, with or without DeepSpeed (documents 002, 003)",
    launcher="torch.distributed.launch, or deepspeed with a hostfile",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=gpt.shape,
    estimate=gpt.estimate,
    parallel=gpt.PARALLEL,
    devices=("cuda",),
)
