"""torchtitan: PyTorch's own trainer of Llama 3 and others, with FSDP, tensor, pipeline and context
parallelism, torch.compile and float8.

Every option is given on the command line, over the defaults of torchtitan's own JobConfig: no
TOML file is used. docs/systems/torchtitan.md has what its run_train.sh does besides.
"""

from collections.abc import Mapping
from typing import Any

from runner.base.errors import UserError
from runner.figures.flops import Decoder
from runner.systems.common import expert_keys, gpt, launchers
from runner.systems.common import torchtitan_options as options
from runner.systems.common.checkpoint_keys import ASYNC, INTERVAL, KEEP, resumes, size_of
from runner.systems.common.models import SDPA
from runner.systems.common.system import Estimate, Profiling, System, parallel_sizes
from runner.systems.common.torchtitan_models import FLAVORS, MODELS, decoder
from runner.systems.common.torchtitan_options import FULL, NONE, ROWWISE, SELECTIVE, TENSORWISE
from runner.terms.cell import Cell, Parameter
from runner.terms.cluster import Cluster
from runner.terms.profile import TORCH
from runner.terms.record import DATA_PARALLEL, MIXED_FP8
from runner.terms.run import Command, NodeContext

LEFT_OVER = -1  # torchtitan's word for a size that the others decide

PARAMETERS = (
    Parameter("model", str, "llama3", "model by torchtitan's name", choices=tuple(MODELS)),
    Parameter("flavor", str, "debugmodel", "its size by torchtitan's name", choices=FLAVORS),
    Parameter("vocab_size", int, None, "tokens of the vocabulary: the flavor's own", minimum=2),
    Parameter("seq_length", int, 2048, "tokens per sample", minimum=2),
    Parameter("micro_batch_size", int, 1, "samples per data parallel rank and pass", minimum=1),
    Parameter(
        "global_batch_size",
        int,
        None,
        "samples an iteration, all devices; default, and -1: one pass of each data parallel rank",
        minimum=LEFT_OVER,
    ),
    gpt.TENSOR_PARALLEL,
    gpt.PIPELINE_PARALLEL,
    gpt.CONTEXT_PARALLEL,
    Parameter(
        "context_parallel_rotate_method",
        str,
        None,
        "how context_parallel exchanges keys and values, of pin 0.2.2; default: allgather",
        choices=("allgather", "alltoall"),
    ),
    Parameter("expert_parallel", int, 1, "devices that experts are split over", minimum=1),
    Parameter(
        "expert_tensor_parallel",
        int,
        None,
        "devices that each expert is split over: 1, or tensor_parallel; default: 1",
        minimum=1,
    ),
    expert_keys.ROUTING,
    Parameter(
        "dp_replicate", int, 1, "copies of the weights; above 1 with dp_shard 1: DDP", minimum=1
    ),
    Parameter(
        "dp_shard",
        int,
        None,
        "devices that weights, gradients and optimizer are split over; default, and -1: the rest",
        minimum=LEFT_OVER,
    ),
    Parameter(
        "fsdp_reshard_after_forward",
        str,
        None,
        "whether FSDP frees weights after the forward pass; never: ZeRO 2; default: torchtitan's,"
        " always but with stages",
        choices=("always", "never"),
    ),
    Parameter(
        "pipeline_schedule", str, "1F1B", "order of passes", choices=("1F1B", "Interleaved1F1B")
    ),
    Parameter(
        "pipeline_micro_batch_size",
        int,
        1,
        "samples of micro_batch_size that go through the stages together",
        minimum=1,
    ),
    Parameter("async_tensor_parallel", bool, False, "tensor_parallel overlaps its communication"),
    Parameter("compile", bool, False, "torch.compile of model and loss"),
    Parameter(
        "float8",
        str,
        NONE,
        "linear layers in float8, by torchao; tensorwise gathers weights in it, too",
        choices=(NONE, TENSORWISE, ROWWISE),
    ),
    Parameter(
        "activation_checkpointing",
        str,
        SELECTIVE,
        "what is recomputed in backward; selective: by operator",
        choices=(NONE, SELECTIVE, FULL),
    ),
    Parameter("precision", str, "bf16", "arithmetic; weights are fp32", choices=("bf16", "fp32")),
    Parameter("train_iters", int, 50, "iterations of a run", minimum=1),
    Parameter("log_interval", int, 1, "iterations a logged line covers", minimum=1),
    Parameter("lr", float, 3e-4, "peak learning rate", minimum=0),
    Parameter("lr_warmup_iters", int, 0, "iterations of linear warm-up of lr", minimum=0),
    Parameter("weight_decay", float, 0.1, "AdamW's weight decay", minimum=0),
    Parameter("clip_grad", float, 1.0, "largest global gradient norm", minimum=0),
    Parameter("tensorboard", bool, False, "write TensorBoard files into the run's folder"),
    Parameter("seed", int, 1234, "seed of weights", minimum=0),
    INTERVAL,
    ASYNC,
    KEEP,
)
PARALLEL = (*gpt.WITH_CONTEXT, expert_keys.FOLDED)


def resolve(values: dict[str, Any]) -> dict[str, Any]:
    """Give the flavor's vocabulary, and leave out sizes that torchtitan derives."""
    shape = decoder(values["model"], values["flavor"], values["seq_length"])
    if shape is None:
        there = ", ".join(MODELS[values["model"]].flavors)
        raise UserError(f"model {values['model']} has no flavor {values['flavor']}; it has {there}")
    derived = {
        name: None for name in ("global_batch_size", "dp_shard") if values[name] == LEFT_OVER
    }
    return {**values, "vocab_size": values["vocab_size"] or shape.vocab_size, **derived}


def model(values: Mapping[str, Any]) -> Decoder:
    """Return the flavor's architecture."""
    shape = decoder(values["model"], values["flavor"], values["seq_length"])
    assert shape is not None  # resolve refuses a flavor that there is not
    return shape


def check(cell: Cell, cluster: Cluster) -> None:
    """Refuse what torchtitan would refuse after it has started on all devices."""
    values, shape = cell.parameters, model(cell.parameters)
    if values["vocab_size"] != shape.vocab_size:
        raise UserError(
            f"vocab_size is {values['vocab_size']}, and flavor {values['flavor']} has"
            f" {shape.vocab_size} tokens; leave it out"
        )
    _check_experts(cell, shape)
    if values["context_parallel"] > 1 and not MODELS[values["model"]].contexts:
        raise UserError(f"model {values['model']} cannot split samples; leave context_parallel out")
    method = values["context_parallel_rotate_method"]
    if method and values["context_parallel"] == 1:
        raise UserError(
            f"context_parallel_rotate_method {method} needs context_parallel of at least 2; leave"
            " it out"
        )
    pieces = values["tensor_parallel"] * values["context_parallel"] * 2
    if values["seq_length"] % pieces:
        raise UserError(
            f"seq_length {values['seq_length']} is not a multiple of {pieces}, 2 x tensor_parallel"
            " x context_parallel; change one"
        )
    _check_data_parallel(cell)
    _check_precision(cell)
    overlaps = values["compile"] and values["tensor_parallel"] > 1
    if values["async_tensor_parallel"] and not overlaps:
        raise UserError("async_tensor_parallel needs tensor_parallel of at least 2 and compile")
    if values["pipeline_parallel"] > 1:
        _check_pipeline(values)
    options.check(cell)


def _check_experts(cell: Cell, shape: Decoder) -> None:
    """Refuse sizes that its sparse mesh does not take (0.2.2, distributed/parallel_dims.py)."""
    values, sizes = cell.parameters, parallel_sizes(cell, PARALLEL)
    split, width = values["expert_parallel"], values["expert_tensor_parallel"] or 1
    if not shape.num_experts:
        for name, is_set in (
            ("expert_parallel", split > 1),
            ("expert_tensor_parallel", width > 1),
            ("routing", values["routing"] != expert_keys.LEARNED),
        ):
            if is_set:
                raise UserError(f"flavor {values['flavor']} has no experts; leave {name} out")
        return
    if shape.num_experts % split:
        raise UserError(
            f"expert_parallel {split} does not divide num_experts {shape.num_experts}; change it"
        )
    if width > 1 and (split == 1 or width != values["tensor_parallel"]):
        raise UserError(
            f"expert_tensor_parallel {width} needs expert_parallel of 2 or more, and is 1 or"
            f" tensor_parallel {values['tensor_parallel']}; change it"
        )
    share = sizes[DATA_PARALLEL] // values["dp_replicate"]
    spread = share * values["context_parallel"] * values["tensor_parallel"]
    if spread % (split * width):
        raise UserError(
            f"expert_parallel {split * width} does not divide dp_shard x context_parallel x"
            f" tensor_parallel {spread}; change one"
        )


def _check_data_parallel(cell: Cell) -> None:
    """Refuse sizes of data parallelism that do not make up what the others leave."""
    values, sizes = cell.parameters, parallel_sizes(cell, PARALLEL)
    data, copies, shard = sizes[DATA_PARALLEL], values["dp_replicate"], values["dp_shard"]
    for name in ("global_batch_size", "dp_shard"):
        if values[name] == 0:
            raise UserError(f"{name} is 0; make it 1 or more, or leave it out")
    if data % copies or shard not in (None, data // copies):
        product = copies if shard is None else f"{copies} x dp_shard {shard}"
        raise UserError(
            f"dp_replicate {product} does not make up data_parallel {data}, what the other sizes"
            f" leave of {cell.world_size} devices; change one"
        )
    if copies > 1 and copies == data and data < cell.world_size:
        raise UserError(
            f"dp_replicate {copies} is DDP, which goes with no other parallelism; lower it, so that"
            " dp_shard is 2 or more"
        )


def _check_precision(cell: Cell) -> None:
    """Refuse bf16 where torchtitan trains in fp32, and says so in a warning alone.

    FSDP casts weights; without it autocast does, but not with tensor or pipeline parallelism
    (torchtitan 73a0e697, torchtitan/distributed/utils.py, maybe_enable_amp).
    """
    values, sizes = cell.parameters, parallel_sizes(cell, PARALLEL)
    sharded = sizes[DATA_PARALLEL] // values["dp_replicate"] * values["context_parallel"] > 1
    split = values["tensor_parallel"] * values["pipeline_parallel"] > 1
    if values["precision"] == "bf16" and split and not sharded:
        raise UserError(
            "tensor_parallel and pipeline_parallel without FSDP train in fp32; set precision: fp32,"
            " or leave devices for dp_shard"
        )


def _check_pipeline(values: Mapping[str, Any]) -> None:
    """Refuse stages that a model does not have, and fewer passes than stages."""
    if not MODELS[values["model"]].pipelines:
        raise UserError(f"model {values['model']} has no stages; set pipeline_parallel: 1")
    micro, pass_size = values["micro_batch_size"], values["pipeline_micro_batch_size"]
    stages = values["pipeline_parallel"]
    if micro % pass_size or micro // pass_size < stages:
        raise UserError(
            f"micro_batch_size {micro} makes {micro / pass_size:g} passes of"
            f" pipeline_micro_batch_size {pass_size}; make it a multiple of {pass_size}, and"
            f" {stages * pass_size} or more"
        )


def command(cell: Cell, node: NodeContext) -> Command:
    """Start one torch.distributed.run per node, with static ranks."""
    log_rank = logged_rank(cell)
    text = f"{node.dataset}/c4_test/data.json"
    argv = [
        *launchers.torch(launchers.RUN, node, gpt.python(node)),
        *("--role", "rank", "--local-ranks-filter", str(_local(log_rank, node))),
        *("-m", "torchtitan.train"),
        *options.option_words(cell, node),
    ]
    caches = node.scratch or f"{node.home}/cache"
    env = {
        "LOG_RANK": str(log_rank),
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": f"{caches}/huggingface",
    }
    tokenizer = ("tokenizer.json", "tokenizer_config.json")
    required = (text, *(f"{node.dataset}/{name}" for name in tokenizer))
    return Command(
        argv=tuple(argv),
        env=env,
        cwd=str(node.run_dir),
        files=options.files(cell),
        requires=dict.fromkeys(required),
    )


def logged_rank(cell: Cell) -> int:
    """Return the rank that knows the loss: the first of the last stage, else 0.

    torchtitan 73a0e697, torchtitan/components/metrics.py:213, ensure_pp_loss_visible.
    """
    stages: int = cell.parameters["pipeline_parallel"]
    return cell.world_size // stages * (stages - 1)


def _local(log_rank: int, node: NodeContext) -> int:
    """Return which of the node's processes is shown in its log.

    Without stages every process logs the same loss. With them a process of another stage says -1:
    of a node without the one that knows it none is shown, their words are in the run's `ranks`.
    """
    rank = log_rank - node.node_rank * node.nproc_per_node
    if 0 <= rank < node.nproc_per_node:
        return rank
    return node.nproc_per_node if log_rank else 0


def estimate(cell: Cell, cluster: Cluster) -> Estimate:
    """Estimate the memory of one device and the time of one run, from the shape alone."""
    sizes = parallel_sizes(cell, PARALLEL)
    ranks = sizes[DATA_PARALLEL] * sizes["context_parallel"]  # which FSDP shards over, both
    sharded = ranks > cell.parameters["dp_replicate"]
    whole = cell.parameters["fsdp_reshard_after_forward"] == "never"
    return gpt.estimate(
        cell,
        cluster,
        model=model(cell.parameters),
        zero_stage=(2 if whole else 3) if sharded else 0,
        flash_attention=True,
        splits=PARALLEL,
        expert_width=cell.parameters["expert_tensor_parallel"]
        or (1 if sizes["expert_parallel"] > 1 else None),
    )


def arithmetic(values: Mapping[str, Any]) -> str | None:
    """Name the precision; in float8 some layers multiply in it and the others in bf16."""
    return str(values["precision"]) if values.get("float8", NONE) == NONE else MIXED_FP8


def attention(cell: Cell) -> str | None:
    """Say what computes it: torch's fused kernels, but in gpt_oss, whose is flex attention."""
    return None if cell.parameters["model"] == "gpt_oss" else SDPA


SYSTEM = System(
    name="torchtitan",
    summary="PyTorch's torchtitan: FSDP, tensor, pipeline, context parallel, compile, float8",
    launcher="torch.distributed.run, static ranks",
    parameters=PARAMETERS,
    resolve=resolve,
    check=check,
    command=command,
    model=model,
    estimate=estimate,
    parallel=PARALLEL,
    arithmetic=arithmetic,
    attention=attention,
    devices=("cuda",),
    profiling=Profiling((TORCH,), ranks=False),
    resumes=resumes,
    checkpoint_bytes=size_of(model),
)
