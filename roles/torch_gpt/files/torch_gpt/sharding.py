"""The model on all ranks: the four ZeRO stages, its first weights, its gradients and its optimizer.

ZeRO (Rajbhandari et al. 2020, section 5) with PyTorch's own means; all stages average gradients
over the data parallel ranks, so that they differ in memory and communication and not in the loss:

    0  DistributedDataParallel (on one data parallel rank nothing)
    1  the same, optimizer states shared out by ZeroRedundancyOptimizer
    2  FSDP2 that keeps weights whole from forward to backward pass: gradients are shared out
    3  FSDP2 that frees a block's weights after use: weights are shared out too

A tensor group's cut (tensor_group.py) comes first: the data parallel ranks share out a rank's part.
The ranks of a context group (context_group.py) have the same weights and see other tokens, as data
parallel ranks do, so that all this takes them for such.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from argparse import Namespace
from typing import Any

import torch
import torch.distributed as dist
from compiling import compile_model, to_float8
from expert_load import is_expert, sum_expert_gradients
from model import Decoder, initial_value
from rules import TrainerError
from tensor_group import cut
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from world import Ranks

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.bfloat16,  # of all but the blocks' products
}


def build(options: Namespace, vocab_size: int, ranks: Ranks) -> tuple[nn.Module, int]:
    """Return the model, split and wrapped, with its first weights, and the whole model's size.

    The model is laid out without memory and given weights one by one, each from a generator of
    its own: a large model never exists in full on a rank that holds a part of it, and all stages
    and numbers of ranks begin with the same weights.

    Raises:
        TrainerError: the vocabulary cannot be cut, or float8 cannot be had here.
    """
    if vocab_size % options.tensor_parallel:
        raise TrainerError(
            f"the padded vocabulary of {vocab_size} is not a multiple of --tensor-parallel "
            f"{options.tensor_parallel}; change it"
        )
    with torch.device("meta"):
        unsplit = Decoder(options, vocab_size)
        dtype = DTYPES[options.precision] if options.mixed_precision == "master_weights" else None
        model = Decoder(
            options, vocab_size, dtype, ranks.tensor_group, ranks.context, ranks.expert_group
        )
    shapes = {name: parameter.shape for name, parameter in unsplit.named_parameters()}
    model.keep_stage(ranks.stage, ranks.stages)
    if options.precision == "fp8":
        to_float8(model, options, ranks.device)
    compile_model(model, options)
    if options.engine == "torch" and options.zero_stage >= 2:
        _share_out(model, options, ranks)
    model.to_empty(device=ranks.device)
    model.prepare(ranks.device)
    _first_weights(model, shapes, options, ranks)
    parameters = sum(shape.numel() for shape in shapes.values())
    replicated = options.engine == "torch" and options.zero_stage < 2
    if replicated and ranks.stages == 1 and ranks.replicas > 1:
        if ranks.expert_mesh is not None:
            ignored = [name for name, _ in model.named_parameters() if is_expert(name)]
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
        wrapped = DistributedDataParallel(
            model,
            device_ids=[ranks.device] if ranks.device.type == "cuda" else None,
            process_group=ranks.mesh.get_group("data"),
            gradient_as_bucket_view=True,
            broadcast_buffers=False,
        )
        return wrapped, parameters
    return model, parameters


def _share_out(model: Decoder, options: Namespace, ranks: Ranks) -> None:
    """Have FSDP2 share out each block, and the rest, over the data parallel ranks.

    The rest is needed at both ends of a pass: it stays whole in between.  The experts of one rank
    of an expert group are shared out over the ranks that have the same.
    """
    low = None if options.precision == "fp32" else DTYPES[options.precision]
    reduced = torch.bfloat16 if options.grad_reduce_in_bf16 else torch.float32
    policy = MixedPrecisionPolicy(low, reduced, cast_forward_inputs=False)
    mesh, free = ranks.mesh["data"], options.zero_stage > 2
    for block in model.blocks.values():
        if ranks.expert_mesh is not None:
            fully_shard(
                block.moe.experts,
                mesh=ranks.expert_mesh["expert_data"],
                mp_policy=policy,
                reshard_after_forward=free,
            )
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=free)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def _first_weights(
    model: Decoder, shapes: dict[str, torch.Size], options: Namespace, ranks: Ranks
) -> None:
    numbers = {name: number for number, name in enumerate(shapes)}
    for name, parameter in model.named_parameters():
        seed = options.seed * 100_003 + numbers[name]
        generator = torch.Generator(ranks.device).manual_seed(seed)
        value = initial_value(name, shapes[name], options.num_layers, generator)
        if ranks.expert_mesh is not None and is_expert(name):
            value = ranks.expert_group.experts_of_rank(value)
        along = cut(name)
        if along is not None:
            value = ranks.tensor_group.own(value, along)
        if isinstance(parameter, DTensor):
            mesh = parameter.device_mesh
            value = distribute_tensor(value, mesh, [Shard(0)], src_data_rank=None).to_local()
        with torch.no_grad():
            local(parameter).copy_(value)


def local(tensor: Tensor) -> Tensor:
    """Return what this rank has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def optimizer_for(
    model: nn.Module, options: Namespace, ranks: Ranks
) -> torch.optim.Optimizer | Optimizers:
    """Return AdamW with GPT-2's betas; only matrices decay."""
    groups: dict[bool, list[dict[str, Any]]] = {False: [], True: []}  # by whether its ranks differ
    split = ranks.expert_mesh is not None
    for experts, matrices in itertools.product((False, True), (True, False)):
        parameters = [
            p
            for name, p in model.named_parameters()
            if (split and is_expert(name)) == experts
            and (p.dim() >= 2 and name.endswith("weight")) == matrices
        ]
        if parameters:  # a stage in the middle may lack some
            decay = options.weight_decay if matrices else 0.0
            groups[experts].append({"params": parameters, "weight_decay": decay})
    common: dict[str, Any] = {"lr": options.lr, "betas": (0.9, 0.95), options.adamw: True}
    if options.zero_stage != 1 or options.engine != "torch":
        return torch.optim.AdamW([*groups[False], *groups[True]], **common)
    common["optimizer_class"] = torch.optim.AdamW
    data = ZeroRedundancyOptimizer(
        groups[False], process_group=ranks.mesh.get_group("data"), **common
    )
    if ranks.expert_mesh is None:
        return data
    group = ranks.expert_mesh.get_group("expert_data")
    return Optimizers((data, ZeroRedundancyOptimizer(groups[True], process_group=group, **common)))


@dataclasses.dataclass(frozen=True)
class Optimizers:
    """Several that step together: one tells its ranks of all weights, which must be alike there."""

    optimizers: tuple[torch.optim.Optimizer, ...]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of all."""
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self) -> None:
        """Update all weights."""
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)


def gradients_are_complete(
    model: nn.Module, last: bool, options: Namespace
) -> contextlib.AbstractContextManager[None]:
    """Return the context of one accumulated pass; ``last`` says that it ends the iteration.

    DDP averages gradients only in the last pass.  FSDP shares them out after each pass, or keeps
    them whole until the last one; stage 2 keeps its weights from pass to pass.
    """
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(last or options.gradient_reduction != "last_pass")
        if options.zero_stage == 2:
            model.set_reshard_after_backward(last)
    return contextlib.nullcontext()


def settle_reduction(model: nn.Module, options: Namespace, ranks: Ranks) -> None:
    """Choose ``--gradient-reduction``, unless given, after iterations that show the memory in use.

    Whole gradients take 4 bytes a weight (in bf16 2), less the share that a rank had of them.  They
    have to fit on each rank beside what it has taken of the device so far, and leave 3 % of it
    free: nearer to the end the allocator gives memory back and takes it again in each iteration,
    which costs more than it saves with four passes, and less with sixteen (8B in bf16, two H200).
    """
    if options.gradient_reduction:
        return
    weights = sum(p.numel() - local(p).numel() for p in model.parameters())
    free, total = torch.cuda.mem_get_info(ranks.device)
    size = 2 if options.grad_reduce_in_bf16 else 4
    fits = torch.tensor(total - free + size * weights <= 0.97 * total, device=ranks.device).int()
    dist.all_reduce(fits, op=dist.ReduceOp.MIN)
    options.gradient_reduction = "last_pass" if fits.item() else "each_pass"


def complete_gradients(model: nn.Module, ranks: Ranks) -> None:
    """Sum and average what neither autograd, DDP nor FSDP has.

    A rank of a tensor group has seen a part of the tokens with what is whole on each: norms, some
    biases, positions.  The stages of a pipeline have no DDP, which takes whole models.
    """
    if ranks.tensor_group.size > 1:
        partial = [
            local(p.grad)
            for name, p in model.named_parameters()
            if p.grad is not None and cut(name) is None
        ]
        if partial:  # many and small: one collective for all
            flat = torch.cat([each.flatten() for each in partial])
            dist.all_reduce(flat, group=ranks.mesh.get_group("tensor"))
            sums = flat.split([gradient.numel() for gradient in partial])
            shaped = [total.view_as(g) for total, g in zip(sums, partial, strict=True)]
            torch._foreach_copy_(partial, shaped)
    experts = []
    if ranks.expert_mesh is not None:
        experts = [
            p.grad for name, p in model.named_parameters() if is_expert(name) and p.grad is not None
        ]
        gradients = [local(gradient) for gradient in experts]
        sum_expert_gradients(gradients, ranks, shared_out=isinstance(model, FSDPModule))
    if ranks.stages > 1 and ranks.replicas > 1:
        apart = {id(gradient) for gradient in experts}
        grads = (p.grad for p in model.parameters())
        every = [g for g in grads if g is not None and id(g) not in apart]
        group = ranks.mesh.get_group("data")
        for work in [dist.all_reduce(each, group=group, async_op=True) for each in every]:
            if work is not None:
                work.wait()
        torch._foreach_div_(every, ranks.replicas)


def gradient_norm(model: nn.Module, ranks: Ranks) -> tuple[list[Tensor], Tensor]:
    """Return this rank's gradients, and the norm of all of them over all ranks.

    The last stage of a pipeline leaves a tied matrix to the first one, which has it too.
    """
    gradients: list[Tensor] = []
    # By whether a tensor group cuts it, and whether the ranks of an expert group have others.
    parts: dict[tuple[bool, bool], list[Tensor]]
    parts = {key: [] for key in itertools.product((True, False), repeat=2)}
    apart = ranks.expert_mesh is not None and not isinstance(model, FSDPModule)
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            continue
        gradients.append(local(parameter.grad))
        if ranks.stage == 0 or not name.endswith("token_embedding.weight"):
            key = cut(name) is not None, apart and is_expert(name)
            parts[key].append(gradients[-1])
    squares = [torch.nn.utils.get_total_norm(some).square() for some in parts.values()]
    both = torch.stack([square.to(ranks.device) for square in squares]).view(2, 2)
    if ranks.tensor_group.size > 1:
        dist.all_reduce(both[0], group=ranks.mesh.get_group("tensor"))
    split_experts, alike = both.sum(0)
    if apart and ranks.expert_mesh is not None:
        dist.all_reduce(split_experts, group=ranks.expert_mesh.get_group("expert"))
    square = split_experts + alike
    if isinstance(model, FSDPModule):
        dist.all_reduce(square, group=ranks.mesh.get_group("data"))
    if ranks.stages > 1:
        dist.all_reduce(square, group=ranks.mesh.get_group("pipeline"))
    return gradients, square.sqrt()
