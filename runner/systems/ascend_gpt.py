"""ascend_gpt: the Ascend model zoo's GPT-2 on NPUs, and its reference on CUDA.

Document 004 (docs/documents.md): five model sizes, each with its own parallel sizes, batches and
learning rates, on the 8 devices of one node. docs/systems/ascend_gpt.md has each difference from
upstream's scripts.
"""

import json
from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.systems.common import gpt, launchers
from runner.systems.common.system import System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.run import Command, NodeContext

# train_full_8p.sh and train_performance_8p.sh at 2e49c279, one row a case.
_COLUMNS = (
    *("tensor_parallel", "pipeline_parallel", "hidden_size", "num_layers", "seq_length"),
    *("global_batch_size", "micro_batch_size", "num_attention_heads", "lr", "min_lr"),
    *("activation_checkpointing", "fused_adam", "loss_scale"),
)
_ROWS: Mapping[str, tuple[Any, ...]] = {
    "345M": (1, 2, 1024, 24, 1024, 16, 4, 16, 1.5e-4, 1.5e-5, True, True, 0),
    "1.3B": (2, 2, 2048, 24, 1024, 32, 8, 16, 2e-4, 2e-5, True, True, 0),
    "2.7B": (2, 2, 2560, 32, 2048, 32, 8, 32, 1.6e-4, 1.6e-5, True, False, 0),
    "3.7B": (2, 2, 3072, 32, 2048, 16, 4, 32, 1.2e-4, 1.2e-5, True, False, 0),
    "345M_without_mp": (1, 1, 1024, 24, 1024, 64, 8, 16, 1.5e-4, 1e-5, False, True, 65536),
}
MODELS = {name: dict(zip(_COLUMNS, row, strict=True)) for name, row in _ROWS.items()}
CUDA_PINS = frozenset({"b4d4a0e"})
DEVICES = 8
FOLDER = "PyTorch/built-in/nlp/GPT-2_for_PyTorch"
# CANN says its variables in a shell file alone. $1 is that file; the rest is run by exec.
WITH_CANN = ("/bin/bash", "-c", '. "$1"; shift; exec "$@"', "with-cann")

PARAMETERS = (
    Parameter("model", str, "345M", "model size by name", choices=tuple(MODELS)),
    Parameter(
        "mode",
        str,
        "performance",
        "full: the learning rate decays over 320000 iterations; performance: over the run's",
        choices=("full", "performance"),
    ),
    Parameter("train_iters", int, 300, "iterations of a run; document: 500000 in full", minimum=1),
    Parameter("tensor_parallel", int, None, "devices a layer is split over; default: the model's"),
    Parameter("pipeline_parallel", int, None, "stages of layers; default: the model's"),
    Parameter("num_layers", int, None, "transformer layers; default: the model's", minimum=1),
    Parameter("hidden_size", int, None, "width; default: the model's", minimum=1),
    Parameter("num_attention_heads", int, None, "heads; default: the model's", minimum=1),
    Parameter("seq_length", int, None, "tokens per sample; default: the model's", minimum=2),
    Parameter("micro_batch_size", int, None, "samples a pass; default: the model's", minimum=1),
    Parameter("global_batch_size", int, None, "samples an iteration; default: the model's"),
    Parameter("lr", float, None, "peak learning rate; default: the model's", minimum=0),
    Parameter("min_lr", float, None, "least learning rate; default: the model's", minimum=0),
    Parameter("activation_checkpointing", bool, None, "recompute; default: the model's"),
    Parameter("fused_adam", bool, None, "the NPU's fused Adam; default: the model's"),
    Parameter("loss_scale", int, None, "0: dynamic; default: the model's", minimum=0),
    Parameter("zero_stage", int, 0, "DeepSpeed's ZeRO stage", choices=(0, 1)),
    Parameter("split", str, "949,50,1", "train, validation, test shares of the documents"),
    Parameter("log_interval", int, 100, "iterations a logged line covers", minimum=1),
    Parameter("eval_interval", int, 1000, "iterations between evaluations", minimum=1),
    Parameter("eval_iters", int, 10, "iterations of an evaluation", minimum=0),
    Parameter("save_interval", int, 100000, "iterations between checkpoints", minimum=1),
    gpt.CHECKPOINT,
    Parameter("tensorboard", bool, False, "write TensorBoard files into the run's folder"),
    Parameter("seed", int, 1234, "seed of weights and sample order", minimum=0),
)
OPTIONS = (
    ("--tensor-model-parallel-size", "tensor_parallel"),
    ("--pipeline-model-parallel-size", "pipeline_parallel"),
    ("--num-layers", "num_layers"),
    ("--hidden-size", "hidden_size"),
    ("--num-attention-heads", "num_attention_heads"),
    ("--seq-length", "seq_length"),
    ("--max-position-embeddings", "seq_length"),
    ("--micro-batch-size", "micro_batch_size"),
    ("--global-batch-size", "global_batch_size"),
    ("--train-iters", "train_iters"),
    ("--split", "split"),
    ("--lr", "lr"),
    ("--min-lr", "min_lr"),
    ("--log-interval", "log_interval"),
    ("--eval-interval", "eval_interval"),
    ("--eval-iters", "eval_iters"),
    ("--seed", "seed"),
    ("--checkpoint-activations", "activation_checkpointing"),
)
# The same for every size.
FIXED = (
    *("--data-impl", "mmap", "--distributed-backend", "nccl", "--lr-decay-style", "cosine"),
    *("--num-workers", "16", "--weight-decay", "0.01", "--clip-grad", "1.0"),
    *("--lr-warmup-fraction", "0.01", "--fp16"),
    *("--attention-dropout", "0.0", "--hidden-dropout", "0.0"),
)
# env_npu.sh at 2e49c279, without what it sources.
NPU_ENV = {
    "INF_NAN_MODE_ENABLE": "0",
    "ASCEND_SLOG_PRINT_TO_STDOUT": "0",
    "ASCEND_GLOBAL_LOG_LEVEL": "3",
    "ASCEND_GLOBAL_EVENT_ENABLE": "0",
    "TASK_QUEUE_ENABLE": "1",
    "COMBINED_ENABLE": "1",
    "BMMV2_ENABLE": "1",
    "HCCL_WHITELIST_DISABLE": "1",
    "HCCL_CONNECT_TIMEOUT": "1800",
    "HCCL_EXEC_TIMEOUT": "1200",
}


def resolve(parameters: dict[str, Any]) -> dict[str, Any]:
    """Fill in the named size's numbers, where a cell does not give its own."""
    sizes = MODELS[parameters["model"]]
    return {
        name: sizes[name] if value is None and name in sizes else value
        for name, value in parameters.items()
    }


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the document's scripts cannot run."""
    values = cell.parameters
    gpt.check_shape(gpt.shape(values), pipeline=values["pipeline_parallel"])
    device = "cuda" if cell.pin in CUDA_PINS else "npu"
    if cluster.device != device:
        other_pin = "b4d4a0e" if cluster.device == "cuda" else "2e49c279"
        raise UserError(
            f"pin {cell.pin} runs on {device}, and cluster_device of {cluster.name} is"
            f" {cluster.device}; take pin {other_pin} or another inventory"
        )
    if cell.nodes != 1:
        raise UserError(
            f"nodes is {cell.nodes}, but the document's trainer runs on one node; set nodes: 1"
        )
    if device == "npu" and cell.world_size != DEVICES:
        raise UserError(
            f"devices_per_node is {cell.devices_per_node}, but the document's trainer takes all"
            f" {DEVICES} devices of a node; set devices_per_node: {DEVICES}"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start the zoo's run.py, which is DeepSpeed's launcher on NPUs; on CUDA that launcher
    itself.
    """
    values = cell.parameters
    files = gpt.data(cell, node)
    npu = cell.pin not in CUDA_PINS
    folder = f"{node.home}/src/{FOLDER}" if npu else f"{node.home}/src"
    script = f"{folder}/pretrain_gpt.py"
    options = [*gpt.options(values, OPTIONS), *FIXED]
    decay = values["train_iters"] if values["mode"] == "performance" else 320000
    options += ["--lr-decay-iters", str(decay)]
    options += ["--data-path", files.prefix]
    options += ["--vocab-file", files.vocab, "--merge-file", files.merges]
    if values["checkpoint"] == "documented":
        options += ["--save", f"{node.run_dir}/checkpoints"]
        options += ["--save-interval", str(values["save_interval"])]
    if values["tensorboard"]:
        options += ["--tensorboard-dir", node.events]
    options += ["--deepspeed", "--deepspeed_config", f"{node.run_dir}/ds_config.json"]
    options += ["--zero-stage", str(values["zero_stage"])]
    if values["activation_checkpointing"]:
        options += ["--deepspeed-activation-checkpointing"]
    written = {"ds_config.json": ds_config(values)}
    requires = {script: None, **files.required}
    if not npu:
        env = gpt.cuda_home("ascend_gpt", cell.pin)
        return launchers.deepspeed(node, [script, *options], env, written, requires, quotes=False)
    env = {**NPU_ENV, "HCCL_IF_IP": node.master_address}
    env |= {"FusedAdam": "1"} if values["fused_adam"] else {}
    ids = ",".join(str(number) for number in node.device_ids or range(node.nproc_per_node))
    launcher = [gpt.python(node), f"{folder}/run.py", "--include", f"localhost:{ids}"]
    launcher += ["--master_port", node.master_port]
    trees = f"{node.home}/sources"  # the trainer looks for ./Megatron-DeepSpeed
    cann = f"{node.cann_home}/set_env.sh"
    return Command(
        argv=(*WITH_CANN, cann, *launcher, script, *options),
        env=env,
        cwd=trees,
        files=written,
        requires={cann: None, f"{trees}/Megatron-DeepSpeed/pretrain_gpt.py": None, **requires},
        picks_devices=True,
    )


def ds_config(values: Mapping[str, Any]) -> str:
    """Return DeepSpeed's configuration as both scripts write it."""
    content = {
        "train_batch_size": values["global_batch_size"],
        "train_micro_batch_size_per_gpu": values["micro_batch_size"],
        "steps_per_print": 1,
        "zero_optimization": {"stage": values["zero_stage"]},
        "gradient_clipping": 1.0,
        "prescale_gradients": True,
        "fp16": {
            "enabled": True,
            "loss_scale": values["loss_scale"],
            "loss_scale_window": 500,
            "hysteresis": 2,
            "min_loss_scale": 1,
            "initial_scale_power": 12,
        },
        "wall_clock_breakdown": False,
    }
    return json.dumps(content, indent=2) + "\n"


SYSTEM = System(
    name="ascend_gpt",
    historic=True,
    summary="the Ascend model zoo's GPT-2 in five sizes, on NPUs or CUDA (document 004)",
    launcher="run.py (DeepSpeed's launcher with the Ascend adaptor), one node",
    parameters=PARAMETERS,
    check=check,
    command=command,
    model=gpt.shape,
    estimate=gpt.estimate,
    parallel=gpt.PARALLEL,
    devices=("npu", "cuda"),
    resolve=resolve,
)
