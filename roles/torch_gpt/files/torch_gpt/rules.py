"""What may be asked for together. Standard library only, as arguments.py is."""

from __future__ import annotations

import argparse
import math

from shapes import GATE_WIDTH


class TrainerError(Exception):
    """The run cannot go on for a reason the user can cure; the message is one sentence."""


def check(options: argparse.Namespace) -> None:
    """Refuse what cannot be split, or does not go together.

    Raises:
        TrainerError: says which two options do not go together.
    """
    _check_shape(options)
    _check_precision(options)
    _check_parallel(options)
    if options.num_experts:
        _check_experts(options)
    elif options.expert_parallel > 1:
        raise TrainerError(
            f"--expert-parallel goes with experts, and {options.model} has none; leave it out, or "
            "set --num-experts"
        )
    if options.context_parallel > 1:
        _check_context(options)
    if options.checkpoint_interval and not options.checkpoint_dir:
        raise TrainerError("--checkpoint-interval needs --checkpoint-dir")
    if options.checkpoint_dir and options.engine == "deepspeed":
        raise TrainerError("--checkpoint-dir goes with --engine torch only; leave it out")


def _check_shape(options: argparse.Namespace) -> None:
    """Refuse sizes that do not divide each other."""
    heads, groups = options.num_attention_heads, options.num_query_groups
    size = options.kv_channels or options.hidden_size // heads
    width = 0 if options.kv_channels else options.hidden_size
    for name, whole, divisor, part in (
        ("--hidden-size", width, "--num-attention-heads", heads),
        ("--num-attention-heads", heads, "--num-query-groups", groups),
    ):
        if whole % part:
            raise TrainerError(
                f"{name} {whole} is not a multiple of {divisor} {part}; change one of them"
            )
    if groups != heads and not options.llama:
        raise TrainerError("--num-query-groups goes with a Llama only; leave it out")
    if options.kv_channels and not options.llama:
        raise TrainerError("--kv-channels goes with a Llama only; leave it out")
    if options.llama and size % 2:
        raise TrainerError(
            f"a head of {size} numbers cannot be turned by pairs; change --num-attention-heads"
        )


def _check_precision(options: argparse.Namespace) -> None:
    """Refuse what the precision or the engine does not go with.

    Raises:
        TrainerError: says which two options do not go together.
    """
    precision, mixed, compiled = options.precision, options.mixed_precision, options.compile
    if mixed and precision == "fp32":
        raise TrainerError(
            "--mixed-precision goes with --precision bf16, fp16 or fp8; leave it out"
        )
    if mixed == "master_weights" and precision == "fp16":
        raise TrainerError("--precision fp16 goes with --mixed-precision autocast only")
    if mixed == "autocast" and precision == "fp8":
        raise TrainerError("--precision fp8 goes with --mixed-precision master_weights only")
    if precision == "fp8" and compiled == "none":
        raise TrainerError("--precision fp8 without --compile is slower than bf16; take block")
    if compiled == "model" and options.zero_stage >= 2:
        raise TrainerError("--compile model goes with --zero-stage 0 and 1 only; take block")
    if compiled == "model" and options.pipeline_parallel > 1:
        raise TrainerError("--compile model does not go with --pipeline-parallel; take block")
    if options.engine == "deepspeed":
        for name, value in (
            ("--compile", compiled not in ("auto", "none")),  # its hooks are within the blocks
            ("--mixed-precision", mixed),
            ("--precision fp8", precision == "fp8"),
            ("--cuda-graphs", options.cuda_graphs),
        ):
            if value:
                raise TrainerError(f"{name} does not go with --engine deepspeed; leave it out")
    if options.async_tensor_parallel and (options.tensor_parallel == 1 or compiled == "none"):
        raise TrainerError(
            "--async-tensor-parallel needs --tensor-parallel of at least 2 and --compile block"
        )
    if options.cuda_graphs and (options.zero_stage or options.pipeline_parallel > 1):
        raise TrainerError("--cuda-graphs goes with --zero-stage 0 and no pipeline; change one")
    if options.cuda_graphs and precision == "fp16":
        raise TrainerError("--cuda-graphs does not go with fp16, whose loss scale changes")


def _check_parallel(options: argparse.Namespace) -> None:
    """Refuse what cannot be split, or not together.

    Raises:
        TrainerError: says which two options do not go together.
    """
    tensor, stages, zero = options.tensor_parallel, options.pipeline_parallel, options.zero_stage
    context = options.context_parallel
    gate = math.gcd(options.ffn_hidden_size, GATE_WIDTH) if options.llama else 1
    for name, size in (
        ("--num-query-groups", options.num_query_groups if options.llama else 0),
        ("--num-attention-heads", options.num_attention_heads),
        (
            "--ffn-hidden-size / 16" if gate > 1 else "--ffn-hidden-size",
            options.ffn_hidden_size // gate,
        ),
        (
            "--micro-batch-size x --seq-length" + (" / --context-parallel" if context > 1 else ""),
            options.micro_batch_size * options.seq_length // context,
        ),
    ):
        if size % tensor:
            raise TrainerError(
                f"{name} {size} is not a multiple of --tensor-parallel {tensor}; change one of them"
            )
    if options.num_layers % stages:
        raise TrainerError(
            f"--num-layers {options.num_layers} is not a multiple of --pipeline-parallel {stages}; "
            "change one of them"
        )
    shared_out = options.gradient_reduction or options.grad_reduce_in_bf16
    if shared_out and (zero < 2 or options.engine == "deepspeed"):
        raise TrainerError(
            "--gradient-reduction and --grad-reduce-in-bf16 go with --zero-stage 2 and 3 of "
            "--engine torch; leave them out"
        )
    if options.engine == "deepspeed" and tensor * stages > 1:
        raise TrainerError(
            "--engine deepspeed is data parallel only; take --engine torch, or set "
            "--tensor-parallel and --pipeline-parallel to 1"
        )
    if tensor > 1 and options.cross_entropy_chunks == 0:
        raise TrainerError("--cross-entropy-chunks 0 goes with --tensor-parallel 1 only; take 1")
    if stages > 1 and zero:
        raise TrainerError("--pipeline-parallel goes with --zero-stage 0 only")
    if stages > 1 and options.eval_iters:
        raise TrainerError("--pipeline-parallel has no validation; set --eval-iters 0")


def _check_experts(options: argparse.Namespace) -> None:
    """Refuse what experts do not go with, and sizes that do not divide them."""
    experts, k = options.num_experts, options.moe_router_topk
    shared = options.moe_shared_expert_intermediate_size
    if not options.llama:
        raise TrainerError(
            f"--num-experts goes with a Llama only, and {options.model} is a GPT-2; take moe-debug"
        )
    if k > experts:
        raise TrainerError(f"--moe-router-topk {k} is more than --num-experts {experts}; lower it")
    for name, size, option, divisor in (
        ("--num-experts", experts, "--expert-parallel", options.expert_parallel),
        *(
            (
                f"{name} / {rows}" if (rows := math.gcd(size, GATE_WIDTH)) > 1 else name,
                size // max(rows, 1),
                "--tensor-parallel",
                options.tensor_parallel,
            )
            for name, size in (
                ("--moe-ffn-hidden-size", options.moe_ffn_hidden_size),
                ("--moe-shared-expert-intermediate-size", shared),
            )
        ),
    ):
        if size % divisor:
            raise TrainerError(
                f"{name} {size} is not a multiple of {option} {divisor}; change one of them"
            )
    grouped, bf16 = options.moe_grouped_gemm, options.precision == "bf16"
    for name, value in (
        ("--engine deepspeed", options.engine == "deepspeed"),
        ("--precision fp8", options.precision == "fp8"),
        (
            "--compile model with --expert-parallel",
            options.compile == "model" and options.expert_parallel > 1,
        ),
        (
            "--cuda-graphs without --precision bf16 and grouped products",
            options.cuda_graphs and (grouped == "loop" or not bf16),
        ),
        ("--moe-grouped-gemm grouped without --precision bf16", grouped == "grouped" and not bf16),
    ):
        if value:
            raise TrainerError(f"{name} does not go with experts; leave it out")
    if options.routing == "balanced" and options.moe_router_bias_update_rate:
        raise TrainerError(
            "--routing balanced asks no router, and --moe-router-bias-update-rate moves its bias; "
            "leave one out"
        )


def _check_context(options: argparse.Namespace) -> None:
    """Refuse samples that a context group cannot share out equally, and what it goes not with.

    Raises:
        TrainerError: says which two options do not go together.
    """
    size = options.context_parallel
    if options.seq_length % (2 * size):
        raise TrainerError(
            f"--seq-length {options.seq_length} is not a multiple of 2 x --context-parallel "
            f"{size}; change one of them"
        )
    for name, there in (
        ("--engine deepspeed", options.engine == "deepspeed"),
        ("--cuda-graphs", options.cuda_graphs),
        ("--attention-backend efficient", options.attention_backend == "efficient"),
        (f"{options.model} with windows or sinks", options.window_size or options.attention_sinks),
    ):
        if there:
            raise TrainerError(f"{name} goes with --context-parallel 1 only; leave one of them out")


def accumulation(options: argparse.Namespace, ranks: int) -> int:
    """Return the passes an iteration; fill in the global batch size if it was not given.

    Raises:
        TrainerError: the ranks cannot be grouped, or the global batch is not a multiple of micro
            batch x data parallel ranks, or has too few passes for the pipeline's stages.
    """
    stages = options.pipeline_parallel
    context = options.context_parallel
    model_ranks = options.tensor_parallel * stages * context
    if ranks % model_ranks:
        between = f"--context-parallel {context} x " if context > 1 else ""
        raise TrainerError(
            f"{ranks} ranks are not a multiple of --tensor-parallel {options.tensor_parallel} x "
            f"{between}--pipeline-parallel {stages} = {model_ranks}; change one of them"
        )
    if options.cuda_graphs and ranks != model_ranks:
        raise TrainerError(
            f"--cuda-graphs goes with one data parallel rank, not with {ranks // model_ranks}; "
            "leave it out"
        )
    if ranks // model_ranks % options.expert_parallel:
        raise TrainerError(
            f"{ranks // model_ranks} data parallel ranks are not a multiple of --expert-parallel "
            f"{options.expert_parallel}; change one of them"
        )
    samples = options.micro_batch_size * (ranks // model_ranks)
    if options.global_batch_size is None:
        options.global_batch_size = samples * stages
    if options.global_batch_size % samples:
        raise TrainerError(
            f"--global-batch-size {options.global_batch_size} is not a multiple of "
            f"--micro-batch-size {options.micro_batch_size} x {ranks // model_ranks} "
            f"{'data parallel ' if model_ranks > 1 else ''}ranks = {samples}; change one of them"
        )
    passes = int(options.global_batch_size // samples)
    if passes < stages:
        raise TrainerError(
            f"--global-batch-size {options.global_batch_size} is {passes} passes, fewer than "
            f"--pipeline-parallel {stages}; make it {samples * stages} or more"
        )
    return passes
