"""megatron_deepspeed: Megatron-DeepSpeed's pretrain_gpt.py, as documents 000 and 001 run it.

Pin sets: bigscience's fork of July 2022 (document 000), of February 2023 (document 001), and
today's deepspeedai one. docs/systems/megatron_deepspeed.md has each difference from upstream's
scripts, with its reason.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.systems.common import gpt, launchers, models
from runner.systems.common.launchers import LAUNCH, RUN
from runner.systems.common.system import Estimate, System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.record import UNFUSED
from runner.terms.run import Command, NodeContext

# The launcher that each pin set's document uses.
LAUNCHERS = {"oneflow2022": LAUNCH, "e52bdabb": RUN}
BIGSCIENCE = frozenset(LAUNCHERS)  # the others are deepspeedai's fork

PARAMETERS = (
    Parameter(
        "launcher",
        str,
        None,
        "Python module that starts the processes; default: the document's of the pin set",
        choices=(LAUNCH, RUN),
    ),
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    *models.parameters(models.MODELS),
    Parameter(
        "attention_backend",
        str,
        None,
        "what computes attention, of today's fork: sdpa is torch's fused kernels by our patch;"
        " default: unfused",
        choices=(models.SDPA, UNFUSED),
    ),
    Parameter("micro_batch_size", int, 4, "samples per device and pass", minimum=1),
    Parameter("global_batch_size", int, 4, "samples an iteration, all devices", minimum=1),
    Parameter(
        "rampup_batch_size",
        str,
        None,
        "batch size at the start, its growth, and the samples over which it grows to"
        " global_batch_size, such as '2 2 1000'; needs train_samples",
    ),
    Parameter("train_iters", int, 220, "iterations of a run", minimum=1),
    Parameter(
        "train_samples",
        int,
        None,
        "train by samples; train_iters then says at which iteration the run ends",
        minimum=1,
    ),
    Parameter("exit_interval", int, None, "end at a multiple of so many iterations", minimum=1),
    Parameter("optimizer", str, None, "optimizer; default: adam", choices=("adam", "sgd")),
    Parameter("adam_beta1", float, None, "Adam's first beta; default: 0.9", minimum=0),
    Parameter("adam_beta2", float, None, "Adam's second beta; default: 0.999", minimum=0),
    Parameter("adam_eps", float, None, "Adam's epsilon; default: 1e-8", minimum=0),
    Parameter("lr", float, 0.00015, "peak learning rate", minimum=0),
    Parameter("min_lr", float, None, "least learning rate; default: 0", minimum=0),
    Parameter("lr_decay_style", str, "cosine", "decay", choices=("constant", "linear", "cosine")),
    Parameter("lr_decay_iters", int, None, "iterations of decay; default: 320000", minimum=1),
    Parameter("lr_decay_samples", int, None, "samples of decay, with train_samples", minimum=1),
    Parameter("lr_warmup_fraction", float, None, "share of the decay that warms up; default: 0.01"),
    Parameter("lr_warmup_samples", int, None, "samples of warm-up, with train_samples", minimum=0),
    Parameter("weight_decay", float, None, "weight decay; default: 0.01", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm", minimum=0),
    Parameter("embed_layernorm", bool, False, "layer norm after the embedding"),
    Parameter("precision", str, "fp16", "arithmetic", choices=("fp16", "bf16", "fp32")),
    Parameter("masked_softmax_fusion", bool, True, "fused softmax, compiled at the first start"),
    Parameter("activation_checkpointing", bool, False, "recompute activations in backward"),
    Parameter("partition_activations", bool, False, "split kept activations over tensor_parallel"),
    Parameter("deepspeed", str, "on", "off: Megatron alone", choices=("on", "off")),
    Parameter("zero_stage", int, 1, "DeepSpeed's ZeRO stage", choices=(0, 1, 2, 3)),
    Parameter("ddp_impl", str, None, "data parallel of Megatron", choices=("local", "torch")),
    Parameter("distributed_backend", str, None, "backend; default: nccl", choices=("nccl", "gloo")),
    Parameter("split", str, "969,30,1", "train, validation, test shares of the documents"),
    Parameter("log_interval", int, 100, "iterations a logged line covers", minimum=1),
    Parameter("eval_interval", int, 1000, "iterations between evaluations", minimum=1),
    Parameter("eval_iters", int, 10, "iterations of an evaluation", minimum=0),
    Parameter("save_interval", int, 10000, "iterations between checkpoints", minimum=1),
    gpt.CHECKPOINT,
    Parameter("steps_per_print", int, 2000, "iterations between DeepSpeed's own lines", minimum=1),
    Parameter("tensorboard", bool, False, "write TensorBoard files into the run's folder"),
    Parameter("kill_switch", bool, False, "watch for a file kill-switch in the run's folder"),
    Parameter("seed", int, None, "seed; default: 1234", minimum=0),
)
# In the order of args_deepspeed_gpt.sh, then what only start_fast.md's script has.
GPT_OPTIONS = (
    ("--num-layers", "num_layers"),
    ("--hidden-size", "hidden_size"),
    ("--num-attention-heads", "num_attention_heads"),
    ("--num-key-value-heads", "num_query_groups"),
    *models.OPTIONS,
    ("--rotary-position-embeddings-theta", "rotary_base"),
    ("--seq-length", "seq_length"),
    ("--max-position-embeddings", "seq_length"),
    ("--micro-batch-size", "micro_batch_size"),
    ("--rampup-batch-size", "rampup_batch_size"),
    ("--global-batch-size", "global_batch_size"),
    ("--lr", "lr"),
    ("--min-lr", "min_lr"),
    ("--train-iters", "train_iters"),
    ("--train-samples", "train_samples"),
    ("--lr-decay-iters", "lr_decay_iters"),
    ("--lr-decay-samples", "lr_decay_samples"),
    ("--lr-decay-style", "lr_decay_style"),
    ("--lr-warmup-fraction", "lr_warmup_fraction"),
    ("--lr-warmup-samples", "lr_warmup_samples"),
    ("--optimizer", "optimizer"),
    ("--adam-beta1", "adam_beta1"),
    ("--adam-beta2", "adam_beta2"),
    ("--adam-eps", "adam_eps"),
    ("--clip-grad", "clip_grad"),
    ("--weight-decay", "weight_decay"),
    ("--embed-layernorm", "embed_layernorm"),
    ("--partition-activations", "partition_activations"),
    ("--seed", "seed"),
    ("--log-interval", "log_interval"),
    ("--exit-interval", "exit_interval"),
    ("--eval-interval", "eval_interval"),
    ("--eval-iters", "eval_iters"),
    ("--split", "split"),
    ("--tensor-model-parallel-size", "tensor_parallel"),
    ("--pipeline-model-parallel-size", "pipeline_parallel"),
    ("--DDP-impl", "ddp_impl"),
    ("--distributed-backend", "distributed_backend"),
    ("--checkpoint-activations", "activation_checkpointing"),
)


def resolved(cell: Cell) -> dict[str, Any]:
    """Fill in the parameters with what depends on others: by samples, the by-iterations
    ones are off.
    """
    values = dict(cell.parameters)
    if values["train_samples"] is None:
        values["lr_decay_iters"] = values["lr_decay_iters"] or 320000
        if values["lr_warmup_fraction"] is None:
            values["lr_warmup_fraction"] = 0.01
    else:
        values["train_iters"] = None
    values["launcher"] = values["launcher"] or LAUNCHERS.get(cell.pin, RUN)
    return values


MOST_RAMP = 1_000_000  # iterations, which are counted one by one


def last_iteration(values: Mapping[str, Any]) -> int:
    """Return at which iteration a run by samples ends: exit_interval, or where the samples are used
    up.

    The batch size grows as in megatron/microbatches.py (RampupBatchsizeNumMicroBatches), and the
    iterations are counted as in megatron/training.py (update_train_iters).
    """
    batch, samples = values["global_batch_size"], values["train_samples"]
    ramp = _rampup(values)
    consumed = iterations = 0
    while ramp and consumed <= ramp[2]:
        start, growth, over = ramp
        increments = (batch - start) // growth
        consumed += start + int(consumed * increments / over) * growth
        iterations += 1
    iterations += int(samples - consumed) // int(batch)
    return min(iterations, int(values["exit_interval"] or iterations))


def _rampup(values: Mapping[str, Any]) -> tuple[int, int, int] | None:
    numbers = str(values["rampup_batch_size"] or "").split()
    return (int(numbers[0]), int(numbers[1]), int(numbers[2])) if numbers else None


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse, before anything is touched."""
    values = cell.parameters
    gpt.check_nodes(cell)
    uses_deepspeed = values["deepspeed"] == "on"
    pipeline, stage = values["pipeline_parallel"], values["zero_stage"]
    gpt.check_shape(gpt.shape(values), pipeline=pipeline, even=not uses_deepspeed)
    if stage and not uses_deepspeed:
        raise UserError(f"zero_stage {stage} needs DeepSpeed; set zero_stage: 0, or deepspeed: on")
    if stage > 1 and cell.pin in BIGSCIENCE:
        raise UserError(
            f"zero_stage {stage} cannot run at pin {cell.pin}: with DeepSpeed it always builds a"
            " pipeline model, and DeepSpeed's pipeline takes stage 0 and 1; take pin current"
        )
    if stage > 1 and pipeline > 1:
        raise UserError(
            f"zero_stage {stage} and pipeline_parallel {pipeline} exclude each other in DeepSpeed;"
            " set pipeline_parallel: 1, or zero_stage to 0 or 1"
        )
    if values["embed_layernorm"] and cell.pin not in BIGSCIENCE:
        raise UserError(f"embed_layernorm is bigscience's; pin {cell.pin} has no such option")
    if values["partition_activations"] and not uses_deepspeed:
        raise UserError("partition_activations needs DeepSpeed; leave it out")
    models.check(values)
    if cell.pin in BIGSCIENCE:
        _check_is_gpt(cell)
    if values["masked_softmax_fusion"] and "without-apex" in cell.pin:
        raise UserError(f"pin {cell.pin} compiles nothing; set masked_softmax_fusion: false")
    _check_length(values, gpt.parallel(cell)["data_parallel"])


def _check_is_gpt(cell: Cell) -> None:
    """Refuse what only today's fork knows."""
    gpts = ("model", "num_layers", "hidden_size", "num_attention_heads", "seq_length")
    names = [item.name for item in models.SIZES if item.name not in gpts]
    for name in (*names, "attention_backend"):
        if cell.parameters[name]:
            raise UserError(f"{name} needs pin current; set pin: current, or leave {name} out")


def _check_length(values: Mapping[str, Any], data_parallel: int) -> None:
    """Check: iterations or samples, not both; a ramp that the trainer takes; where the run ends."""
    if values["train_samples"] is None:
        for name in ("rampup_batch_size", "lr_decay_samples", "lr_warmup_samples", "exit_interval"):
            if values[name] is not None:
                raise UserError(f"{name} needs train_samples; give it, or leave {name} out")
        return
    for name in ("lr_decay_iters", "lr_warmup_fraction"):
        if values[name] is not None:
            raise UserError(f"{name} does not go with train_samples; leave it out")
    text = values["rampup_batch_size"]
    if text is not None:
        if not re.fullmatch(r"[1-9]\d{0,14} [1-9]\d{0,14} [1-9]\d{0,14}", text):
            raise UserError(
                f"rampup_batch_size is {text[:60]!r}; write start, growth and samples, as"
                " '2 2 1000'"
            )
        start, growth, over = _rampup(values) or (1, 1, 0)
        if over // start > MOST_RAMP:
            raise UserError(
                f"rampup_batch_size {text!r} grows over more than {MOST_RAMP} iterations; take"
                " fewer samples, or a larger start"
            )
        passes = values["micro_batch_size"] * data_parallel
        if values["global_batch_size"] < start or (values["global_batch_size"] - start) % growth:
            raise UserError(
                f"rampup_batch_size {text!r} does not reach global_batch_size"
                f" {values['global_batch_size']} from {start} in steps of {growth}; change one"
            )
        if start % passes or growth % passes:
            raise UserError(
                f"rampup_batch_size {text!r}: start and growth must be multiples of"
                f" micro_batch_size x data_parallel, which is {passes}"
            )
    ends = last_iteration(values)
    if values["train_iters"] != ends:
        raise UserError(
            f"with train_samples {values['train_samples']} the run ends at iteration {ends};"
            f" set train_iters: {ends}"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one launcher a node, with static ranks; ds_config.json in the run's folder."""
    values = resolved(cell)
    source = f"{node.home}/src"
    files = gpt.data(cell, node)
    argv = [
        *launchers.torch(values["launcher"], node, gpt.python(node)),
        f"{source}/pretrain_gpt.py",
        *gpt.options(values, GPT_OPTIONS),
        *("--vocab-file", files.vocab, "--merge-file", files.merges),
        *("--data-path", files.prefix),
        *models.padded_vocabulary(values),
    ]
    if values["normalization"] == "RMSNorm":
        argv += ["--normalization", "rmsnorm"]
    if values["position_embedding_type"] == models.ROPE:
        argv += ["--use-rotary-position-embeddings"]
    if values["attention_backend"] == models.SDPA:
        argv += ["--use-flash-attn-builder"]  # torch's, where DeepSpeed has no kernel of its own
    argv += [] if values["precision"] == "fp32" else [f"--{values['precision']}"]
    argv += [] if values["masked_softmax_fusion"] else ["--no-masked-softmax-fusion"]
    # Its kernel is apex's, and it is on unless it is turned off.
    argv += ["--no-gradient-accumulation-fusion"] if "without-apex" in cell.pin else []
    if values["checkpoint"] == "documented":
        argv += ["--save", f"{node.run_dir}/checkpoints"]
        argv += ["--save-interval", str(values["save_interval"])]
    if values["tensorboard"]:
        argv += ["--tensorboard-dir", node.events]
        argv += ["--tensorboard-queue-size", "5", "--log-timers-to-tensorboard"]
        argv += ["--log-batch-size-to-tensorboard", "--log-validation-ppl-to-tensorboard"]
    if values["kill_switch"]:
        flag = "--kill-switch-path" if cell.pin in BIGSCIENCE else "--kill-switch-file"
        argv += [flag, f"{node.run_dir}/kill-switch"]
    written = {}
    if values["deepspeed"] == "on":
        written["ds_config.json"] = ds_config(values)
        argv += ["--deepspeed", "--deepspeed_config", f"{node.run_dir}/ds_config.json"]
        argv += ["--zero-stage", str(values["zero_stage"])]
        argv += ["--deepspeed-activation-checkpointing"]
        argv += ["--no-pipeline-parallel"] if values["zero_stage"] > 1 else []
    return Command(
        argv=tuple(argv),
        env={
            "OMP_NUM_THREADS": "1",
            "LOGLEVEL": "WARNING",
            **gpt.cuda_home("megatron_deepspeed", cell.pin),
        },
        cwd=source,
        files=written,
        requires={f"{source}/pretrain_gpt.py": None, **files.required},
    )


def attention(cell: Cell) -> str | None:
    """Say what computes attention; of the documents' forks, which knew no other way, nothing."""
    default = None if cell.pin in BIGSCIENCE else UNFUSED
    return cell.parameters["attention_backend"] or default


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run."""
    fused = cell.parameters["attention_backend"] == models.SDPA
    return gpt.estimate(cell, cluster, flash_attention=fused)


def ds_config(values: Mapping[str, Any]) -> str:
    """Return DeepSpeed's configuration as both documents write it, except fp16.enabled.

    Upstream's says true whatever the precision is, so that a run in single precision is in half.
    """
    content: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": values["micro_batch_size"],
        "train_batch_size": values["global_batch_size"],
        "gradient_clipping": values["clip_grad"],
        "zero_optimization": {"stage": values["zero_stage"]},
        "fp16": {
            "enabled": values["precision"] == "fp16",
            "loss_scale": 0,
            "loss_scale_window": 500,
            "hysteresis": 2,
            "min_loss_scale": 1,
            "initial_scale_power": 12,
        },
        "steps_per_print": values["steps_per_print"],
        "wall_clock_breakdown": False,
    }
    if values["precision"] == "bf16":
        content["bf16"] = {"enabled": True}
    return json.dumps(content, indent=2) + "\n"


SYSTEM = System(
    name="megatron_deepspeed",
    summary="Megatron-DeepSpeed's GPT: tensor, pipeline, ZeRO (documents 000 and 001)",
    launcher="torch.distributed.launch or .run, static ranks",
    parameters=PARAMETERS,
    resolve=models.resolve,
    check=check,
    command=command,
    model=gpt.shape,
    attention=attention,
    estimate=estimate,
    parallel=gpt.PARALLEL,
    devices=("cuda",),
)
