"""megatron_core: NVIDIA's Megatron-LM with megatron-core, pretrain_gpt.py, a release of today."""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.systems.common import gpt, launchers, megatron_context, megatron_experts, models
from runner.systems.common.checkpoint_keys import ASYNC, INTERVAL, resumes, size_of
from runner.systems.common.expert_models import MODELS
from runner.systems.common.system import Estimate, Profiling, System
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.profile import NSYS, TORCH
from runner.terms.record import UNFUSED
from runner.terms.run import Command, NodeContext

LOCAL = "local"
# GPT-OSS has sinks and a SwiGLU of its own, for which there are no keys here.
MEGATRONS = {name: sizes for name, sizes in MODELS.items() if "softmax_type" not in sizes}
PARAMETERS = (
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    Parameter("sequence_parallel", bool, False, "split layer norms over tensor_parallel, too"),
    *megatron_context.PARAMETERS,
    *models.parameters(MEGATRONS),
    *megatron_experts.PARAMETERS,
    Parameter("micro_batch_size", int, 8, "samples per device and pass", minimum=1),
    Parameter("global_batch_size", int, 64, "samples an iteration, all devices", minimum=1),
    Parameter("train_iters", int, 50, "iterations of a run", minimum=1),
    Parameter("lr", float, 0.00015, "peak learning rate", minimum=0),
    Parameter("min_lr", float, 1.0e-5, "least learning rate", minimum=0),
    Parameter("lr_decay_style", str, "cosine", "decay", choices=("constant", "linear", "cosine")),
    Parameter("lr_decay_iters", int, 320000, "iterations of decay", minimum=1),
    Parameter("lr_warmup_fraction", float, 0.01, "share of the decay that warms up", minimum=0),
    Parameter("weight_decay", float, 0.01, "weight decay", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm", minimum=0),
    Parameter("precision", str, "bf16", "arithmetic", choices=("bf16", "fp16", "fp32")),
    Parameter("activation_checkpointing", bool, False, "recompute whole layers in backward"),
    Parameter("selective_recompute", bool, False, "recompute attention alone in backward"),
    Parameter("distributed_optimizer", bool, False, "optimizer states split over data parallel"),
    Parameter("overlap_grad_reduce", bool, False, "reduce gradients while backward goes on"),
    Parameter("overlap_param_gather", bool, False, "gather weights while forward goes on"),
    Parameter(
        "transformer_impl",
        str,
        LOCAL,
        "local: torch alone; transformer_engine: with NVIDIA's library, if it is installed",
        choices=(LOCAL, "transformer_engine"),
    ),
    Parameter(
        "attention_backend",
        str,
        None,
        "what computes attention; local has sdpa, torch's fused kernels by our patch, and unfused;"
        " transformer_engine has auto, flash, fused, unfused; default: sdpa or auto",
        choices=(models.SDPA, UNFUSED, "auto", "flash", "fused"),
        older=UNFUSED,
    ),
    Parameter("cross_entropy_loss_fusion", bool, None, "loss by kernels that torch compiles"),
    Parameter("mock_data", bool, False, "made-up tokens instead of the dataset's"),
    Parameter("split", str, "900,50,50", "train, validation, test shares of the documents"),
    Parameter("log_interval", int, 1, "iterations a logged line covers", minimum=1),
    Parameter("eval_interval", int, 1000, "iterations between evaluations", minimum=1),
    Parameter("eval_iters", int, 0, "iterations of an evaluation", minimum=0),
    Parameter("tensorboard", bool, False, "write TensorBoard files into the run's folder"),
    Parameter("seed", int, 1234, "seed of weights and sample order", minimum=0),
    INTERVAL,
    ASYNC,
)
OPTIONS = (
    ("--tensor-model-parallel-size", "tensor_parallel"),
    ("--pipeline-model-parallel-size", "pipeline_parallel"),
    ("--sequence-parallel", "sequence_parallel"),
    ("--num-layers", "num_layers"),
    ("--hidden-size", "hidden_size"),
    ("--num-attention-heads", "num_attention_heads"),
    ("--normalization", "normalization"),
    ("--position-embedding-type", "position_embedding_type"),
    ("--rotary-base", "rotary_base"),
    *models.OPTIONS,
    ("--seq-length", "seq_length"),
    ("--max-position-embeddings", "seq_length"),
    ("--micro-batch-size", "micro_batch_size"),
    ("--global-batch-size", "global_batch_size"),
    ("--train-iters", "train_iters"),
    ("--lr", "lr"),
    ("--min-lr", "min_lr"),
    ("--lr-decay-style", "lr_decay_style"),
    ("--lr-decay-iters", "lr_decay_iters"),
    ("--lr-warmup-fraction", "lr_warmup_fraction"),
    ("--weight-decay", "weight_decay"),
    ("--clip-grad", "clip_grad"),
    ("--use-distributed-optimizer", "distributed_optimizer"),
    ("--overlap-grad-reduce", "overlap_grad_reduce"),
    ("--overlap-param-gather", "overlap_param_gather"),
    ("--transformer-impl", "transformer_impl"),
    ("--attention-backend", "attention_backend"),
    ("--cross-entropy-loss-fusion", "cross_entropy_loss_fusion"),
    ("--split", "split"),
    ("--log-interval", "log_interval"),
    ("--eval-interval", "eval_interval"),
    ("--eval-iters", "eval_iters"),
    ("--seed", "seed"),
)
# The local implementation has none of apex's kernels.
WITHOUT_APEX = (
    *("--no-persist-layer-norm", "--no-gradient-accumulation-fusion"),
    "--no-masked-softmax-fusion",
)


def resolve(parameters: dict[str, Any]) -> dict[str, Any]:
    """Fill in the named model's sizes, and what computes attention."""
    local = parameters["transformer_impl"] == LOCAL
    values = megatron_experts.resolve(models.resolve(parameters, MEGATRONS), local=local)
    default = models.SDPA if local else "auto"
    return {**values, "attention_backend": values["attention_backend"] or default}


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what the trainer would refuse."""
    values = cell.parameters
    gpt.check_nodes(cell)
    gpt.check_shape(gpt.shape(values), pipeline=values["pipeline_parallel"])
    models.check(values)
    _check_attention(values)
    local = values["transformer_impl"] == LOCAL
    megatron_experts.check(cell, local=local)
    megatron_context.check(values, gpt.shape(values), local=local)
    if values["sequence_parallel"] and values["tensor_parallel"] == 1:
        raise UserError(
            "sequence_parallel needs tensor_parallel of at least 2; set it, or leave it"
        )
    if values["sequence_parallel"] and values["transformer_impl"] == LOCAL:
        raise UserError(
            "sequence_parallel needs layer norms of apex or transformer-engine, which local is"
            " without; set transformer_impl: transformer_engine, or leave it"
        )
    if values["overlap_param_gather"] and not (
        values["distributed_optimizer"] and values["overlap_grad_reduce"]
    ):
        raise UserError("overlap_param_gather needs distributed_optimizer and overlap_grad_reduce")
    if values["activation_checkpointing"] and values["selective_recompute"]:
        raise UserError("activation_checkpointing and selective_recompute exclude each other")
    if values["tensorboard"] and cell.profile and cell.profile.tool == TORCH:
        raise UserError("profile: torch takes the folder of tensorboard; leave tensorboard out")


def _check_attention(values: Mapping[str, Any]) -> None:
    local, backend = values["transformer_impl"] == LOCAL, values["attention_backend"]
    takes = (models.SDPA, UNFUSED) if local else ("auto", "flash", "fused", UNFUSED)
    if backend not in takes:
        raise UserError(
            f"attention_backend {backend} is not one of transformer_impl"
            f" {values['transformer_impl']}; take one of {', '.join(takes)}"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one torch.distributed.run per node, with static ranks."""
    values = cell.parameters
    source = f"{node.home}/src"
    files = gpt.data(cell, node)
    argv = [
        *launchers.torch(launchers.RUN, node, gpt.python(node)),
        f"{source}/pretrain_gpt.py",
        *gpt.options(values, OPTIONS),
        *_model_options(values),
        "--log-throughput",  # its own count of TFLOP/s, which costs no step anything
    ]
    argv += [] if values["precision"] == "fp32" else [f"--{values['precision']}"]
    if values["activation_checkpointing"]:
        argv += ["--recompute-granularity", "full"]
        argv += ["--recompute-method", "uniform", "--recompute-num-layers", "1"]
    if values["selective_recompute"]:
        argv += ["--recompute-granularity", "selective"]
    if values["mock_data"]:
        argv += ["--mock-data", "--tokenizer-type", "NullTokenizer"]
        argv += ["--vocab-size", str(gpt.shape(values).vocab_size - 1)]  # it adds one
    else:
        argv += models.padded_vocabulary(values)
        argv += ["--data-path", files.prefix, "--tokenizer-type", "GPT2BPETokenizer"]
        argv += ["--vocab-file", files.vocab, "--merge-file", files.merges]
    if values["tensorboard"]:
        argv += ["--tensorboard-dir", node.events]
        argv += ["--tensorboard-queue-size", "5", "--log-timers-to-tensorboard"]
        argv += ["--log-validation-ppl-to-tensorboard"]
    argv += _checkpoints(cell, node)
    argv += _profiler(cell, node)
    script: dict[str, int | None] = {f"{source}/pretrain_gpt.py": None}
    return Command(
        argv=tuple(argv),
        # Megatron demands it for tensor parallelism, so that computation and communication
        # overlap in the order that they were issued.
        env={"CUDA_DEVICE_MAX_CONNECTIONS": "1", **gpt.cuda_home("megatron_core", cell.pin)},
        cwd=source,
        requires=script if values["mock_data"] else {**script, **files.required},
    )


def _model_options(values: Mapping[str, Any]) -> list[str]:
    """Build the options of the model that no single parameter is."""
    argv = []
    if values["num_query_groups"]:
        argv += ["--group-query-attention", "--num-query-groups", str(values["num_query_groups"])]
    argv += megatron_context.options(values)
    argv += megatron_experts.options(values)
    if values["attention_backend"] == models.SDPA:
        argv += ["--no-create-attention-mask-in-dataloader"]  # it masks by position
    if values["transformer_impl"] == LOCAL:
        argv += WITHOUT_APEX
        argv += ["--no-rope-fusion"] if values["position_embedding_type"] == models.ROPE else []
    return argv


def _checkpoints(cell: Cell, node: NodeContext) -> list[str]:
    """Build the options of its checkpoints; from an empty folder it begins at the beginning."""
    values = cell.parameters
    if not values["checkpoint_interval"] or not node.checkpoints:
        return []
    argv = ["--save", node.checkpoints, "--load", node.checkpoints, "--ckpt-format", "torch_dist"]
    argv += ["--save-interval", str(values["checkpoint_interval"])]
    return [*argv, *(["--async-save"] if values["checkpoint_async"] else [])]


def _profiler(cell: Cell, node: NodeContext) -> list[str]:
    """Build the options of Megatron's own profiling (megatron/training/training.py).

    torch's first iteration is --profile-step-start, its last the one before --profile-step-end;
    core_v0.18.2 writes beside the TensorBoard folder, core_v0.13.0 into it. cudaProfilerStart comes
    after --profile-step-start, cudaProfilerStop after --profile-step-end.
    """
    if not (profile := cell.profile):
        return []
    if profile.tool == TORCH:
        begin, end = profile.first, profile.last + 1
        trace_options = ["--use-pytorch-profiler", "--tensorboard-dir", f"{node.traces}/events"]
    else:
        begin, end, trace_options = profile.first - 1, profile.last, []
    argv = ["--profile", "--profile-step-start", str(begin), "--profile-step-end", str(end)]
    return [*argv, "--profile-ranks", *map(str, profile.ranks), *trace_options]


def attention(cell: Cell) -> str:
    """Say what computes attention: transformer_engine's own names follow its own."""
    impl, backend = (cell.parameters[key] for key in ("transformer_impl", "attention_backend"))
    return str(backend) if impl == LOCAL or backend == UNFUSED else f"{impl} {backend}"


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run."""
    stage = 1 if cell.parameters["distributed_optimizer"] else 0
    fused = cell.parameters["attention_backend"] != UNFUSED
    splits = megatron_experts.PARALLEL
    return gpt.estimate(
        cell,
        cluster,
        zero_stage=stage,
        flash_attention=fused,
        splits=splits,
        expert_width=cell.parameters["expert_tensor_parallel"],
    )


SYSTEM = System(
    name="megatron_core",
    summary="NVIDIA's Megatron-LM of today: tensor, pipeline, context, expert, data parallel",
    launcher="torch.distributed.run, static ranks",
    parameters=PARAMETERS,
    resolve=resolve,
    check=check,
    command=command,
    model=gpt.shape,
    attention=attention,
    estimate=estimate,
    parallel=megatron_experts.PARALLEL,
    devices=("cuda",),
    profiling=Profiling((TORCH, NSYS)),
    resumes=resumes,
    checkpoint_bytes=size_of(gpt.shape, half_beside_masters=True),
)
