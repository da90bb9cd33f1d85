"""torch.compile, float8, CUDA graphs, and what of them really ran."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils as dynamo
from model import Decoder
from rules import TrainerError
from torch import Tensor
from torch._inductor import config as inductor
from torch.profiler import ProfilerActivity, profile

WARM_UPS = 3  # passes before a CUDA graph is recorded, as torch's own examples have


def to_float8(model: Decoder, options: Namespace, device: torch.device) -> None:
    """Have the blocks' products computed in float8 (torchao, tensorwise); a CPU emulates it."""
    # Of its kernels for other GPUs than these, and of a name of torch's that it still uses.
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError as error:
        raise TrainerError(
            f"--precision fp8 needs torchao in this environment ({error}); install it, or take bf16"
        ) from error
    cpu = device.type == "cpu"
    if not cpu and torch.cuda.get_device_capability(device) < (8, 9):
        raise TrainerError(
            "--precision fp8 needs a GPU of compute capability 8.9 or more; take bf16"
        )
    sharded = options.zero_stage >= 2
    config = Float8LinearConfig(emulate=cpu, enable_fsdp_float8_all_gather=sharded)
    convert_to_float8_training(model.blocks, config=config)


def scale_float8(model: torch.nn.Module) -> None:
    """Measure all weights that FSDP2 gathers in float8, in one collective and not in one each."""
    from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

    precompute_float8_dynamic_scale_for_fsdp(model)


def compile_model(model: Decoder, options: Namespace) -> None:
    """Compile what ``--compile`` names, before the model is wrapped.

    Each block is one graph, the same for all of them, so that one compilation serves all; a graph
    of the whole model also fuses over the blocks' borders, and takes longer to compile.
    """
    if options.compile == "none":
        return
    # torch's cache knows a graph before its attention's kernel is chosen: without this, a run
    # that asks for another kernel is given the last run's (seen on an H200 and on a CPU).
    torch.compiler.config.cache_key_tag = f"attention {options.attention_backend}"
    if options.tensor_parallel > 1:
        # A collective as early, and the wait for it as late, as what is needed allows.
        inductor.reorder_for_compute_comm_overlap = True
        inductor.reorder_for_compute_comm_overlap_passes = ["raise_comms", "sink_waits"]
    if options.async_tensor_parallel:
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group

        enable_symm_mem_for_group(model.group.name)
        inductor._micro_pipeline_tp = True
    if options.compile == "model":
        model.forward = torch.compile(model.forward, fullgraph=True, dynamic=False)
        return
    # DDP would have a block cut into pieces, so that a gradient goes off before the block is done.
    torch._dynamo.config.optimize_ddp = False
    # How many tokens come from other ranks is only known as they come: that is outside of graphs.
    whole = options.expert_parallel == 1
    for block in model.blocks.values():
        block.kept = torch.compile(block.kept, fullgraph=whole, dynamic=False if whole else None)
    model.loss = torch.compile(model.loss, fullgraph=True, dynamic=False)


def compiled() -> dict[str, Any]:
    """Return what compiling took so far, and how much of it the caches on this node had."""
    took_us = sum(one.duration_us or 0 for one in dynamo.get_compilation_metrics())
    found, made = (dynamo.counters["inductor"][f"fxgraph_cache_{word}"] for word in ("hit", "miss"))
    cache = "none" if not found + made else "warm" if not made else "partly" if found else "cold"
    return {
        "compile_s": f"{took_us / 1e6:.1f}",
        "compiled": found + made,
        "from_cache": found,
        "compile_cache": cache,
    }


# Operators of scaled_dot_product_attention, by what --attention-backend calls them.
_OPERATORS = {
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_flash_attention_for_cpu": "cpu_flash",
}


def attention_of(run: Callable[[], Any]) -> tuple[Any, str]:
    """Return what ``run`` returns, and which kernels of attention it ran.

    Compiled, ``math`` is not one operator but its products: ``-``.
    """
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        result = run()
    names = {event.name.removeprefix("aten::") for event in seen.events() or ()}
    return result, ",".join(sorted(_OPERATORS[name] for name in names & set(_OPERATORS))) or "-"


class Replayed:
    """The forward and backward pass of a micro batch, recorded as one CUDA graph.

    ``run`` leaves gradients where they are, so that they must be there from the first pass on.
    All passes are of one pair of tensors, those before the recording, too: of others, which may
    have other strides, torch.compile would make new graphs while it is recorded.
    """

    def __init__(self, run: Callable[[Tensor, Tensor], Tensor], warm_ups: int) -> None:
        self.run, self.warm_ups = run, warm_ups
        self.stream = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        self.batch: tuple[Tensor, Tensor] | None = None
        self.loss: Tensor | None = None

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of the batch."""
        if self.batch is None:
            self.batch = tokens.clone(), targets.clone()
        for held, given in zip(self.batch, (tokens, targets), strict=True):
            held.copy_(given)
        if self.warm_ups:
            self.warm_ups -= 1
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                loss = self.run(*self.batch)
            torch.cuda.current_stream().wait_stream(self.stream)
            return loss
        if self.loss is None:
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.loss = self.run(*self.batch)
        self.graph.replay()
        return self.loss.clone()
