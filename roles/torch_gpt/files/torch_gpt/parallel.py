"""Ranks, the four ZeRO stages, tensor parallelism, and leaving in order.

ZeRO (Rajbhandari et al. 2020, section 5) with PyTorch's own means; all stages average gradients
over the ranks, so that they differ in memory and communication and not in the loss:

    0  DistributedDataParallel
    1  the same, optimizer states shared out by ZeroRedundancyOptimizer
    2  FSDP2 that keeps weights whole from forward to backward pass: gradients are shared out
    3  FSDP2 that frees a block's weights after use: weights are shared out too

Tensor parallelism (Shoeybi et al. 2019, section 3) is a plan of DTensors: a group of ranks shares
out the heads and the perceptron of each block and adds up what comes out; embeddings, layer norms
and the output are the same on all of them.  With it, or with a pipeline (pipeline.py), stage 0
averages gradients after the last pass, since DDP takes no DTensors and no stages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import resource
import sys
import time
import traceback
from argparse import Namespace
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from arguments import TrainerError
from model import GPT, initial_value
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

MIB = 1 << 20
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# What a rank sees when another one has gone: gloo's words, then NCCL's.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Socket closed",
             "Timed out waiting", "remote process exited", "Connection refused")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among all; ``node_first`` is true for one rank of each node.

    The mesh has the dimensions pipeline, data and tensor; the ranks of a tensor group, which talk
    most, are next to each other.  ``data_rank`` and ``data_size`` say which samples are this one's.
    """

    rank: int
    size: int
    nodes: int
    node_first: bool
    device: torch.device
    backend: str
    store: Store
    mesh: DeviceMesh
    data_rank: int
    data_size: int
    stage: int
    stages: int


def start(options: Namespace) -> Ranks:
    """Choose the device and join the process group; without torchrun this is a group of one.

    Raises:
        TrainerError: there is no CUDA device for this rank.
    """
    # LOCAL_SIZE is what the deepspeed launcher calls it.
    for key, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"),
                       ("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_SIZE", "1")),
                       ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0")):  # fmt: skip
        os.environ.setdefault(key, value)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    wanted = options.device
    cuda = wanted == "cuda" or (wanted == "auto" and torch.cuda.is_available())
    # Several ranks on one CUDA device would hang in NCCL, so that a rank too many is refused here.
    if cuda and local_size > torch.cuda.device_count():
        raise TrainerError(
            f"{local_size} ranks on this node but {torch.cuda.device_count()} CUDA devices; lower "
            "--nproc_per_node of torch.distributed.run or use --device cpu"
        )
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    backend = "nccl" if cuda else "gloo"
    if cuda:
        torch.cuda.set_device(device)
    store, _, _ = next(rendezvous("env://", rank, size))
    store.set_timeout(datetime.timedelta(minutes=10))
    group = PrefixStore("group", store)
    dist.init_process_group(backend, store=group, rank=rank, world_size=size)
    stages, tensor = options.pipeline_parallel, options.tensor_parallel
    data_size = size // (stages * tensor)
    names = ("pipeline", "data", "tensor")
    mesh = init_device_mesh(device.type, (stages, data_size, tensor), mesh_dim_names=names)
    return Ranks(
        *(rank, size, size // local_size, local == 0, device, backend, store, mesh),
        data_rank=mesh.get_local_rank("data"),
        data_size=data_size,
        stage=mesh.get_local_rank("pipeline"),
        stages=stages,
    )


def finish() -> None:
    """Leave the process group in order, when all ranks have come so far."""
    dist.barrier()
    dist.destroy_process_group()


def leave(status: int) -> NoReturn:
    """End this process at once, without Python's finalization.

    gloo's threads end when the last reference to the process group goes, not when the group is
    destroyed, and FSDP2 keeps references (FSDPMeshInfo) for as long as the process lives.  If such
    a thread drops the tensors of its last collective while Python is finalizing, Python ends the
    thread, and the process aborts: "terminate called without an active exception", seen under
    torch 2.13 on a busy machine.  After an error, finalization could wait for ranks that are gone.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def agree(ranks: Ranks, options: Namespace, problem: str | None) -> None:
    """Stop all ranks with the same TrainerError if one has a problem or was started differently."""
    own = {key: value for key, value in vars(options).items() if key != "data_path"}
    everyone: list[Any] = [None] * ranks.size
    dist.all_gather_object(everyone, (problem, own))
    for rank, (theirs, given) in enumerate(everyone):
        if theirs:
            raise TrainerError(theirs if ranks.nodes == 1 else f"rank {rank}: {theirs}")
        first = everyone[0][1]
        for key in (key for key in given if given[key] != first[key]):
            raise TrainerError(
                f"rank {rank} was started with --{key.replace('_', '-')} {given[key]} but rank 0 "
                f"with {first[key]}; start all nodes with the same arguments"
            )


def build(options: Namespace, vocab_size: int, ranks: Ranks) -> tuple[nn.Module, int]:
    """Return the model, split and wrapped, with its first weights, and the whole model's size.

    The model is laid out without memory and given weights one by one, each from a generator of
    its own: a large model never exists in full on a rank that holds a part of it, and all stages
    and numbers of ranks begin with the same weights.
    """
    with torch.device("meta"):
        model = GPT(
            vocab_size,
            options.seq_length,
            options.num_layers,
            options.hidden_size,
            options.num_attention_heads,
            options.activation_checkpointing,
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    numbers = {name: number for number, (name, _) in enumerate(model.named_parameters())}
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    model.keep_stage(ranks.stage, ranks.stages)
    if options.tensor_parallel > 1:
        plan = {"qkv": ColwiseParallel(), "attention_out": RowwiseParallel(),
                "mlp_in": ColwiseParallel(), "mlp_out": RowwiseParallel()}  # fmt: skip
        for block in model.blocks.values():
            parallelize_module(block, ranks.mesh["tensor"], plan, src_data_rank=None)
    by_fsdp = options.engine == "torch" and options.zero_stage >= 2
    if by_fsdp:
        low = None if options.precision == "fp32" else DTYPES[options.precision]
        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32)
        whole = options.zero_stage == 2
        for part in [*model.blocks.values(), model]:
            fully_shard(
                part, mesh=ranks.mesh["data"], mp_policy=policy, reshard_after_forward=not whole
            )
    model.to_empty(device=ranks.device)
    for name, parameter in model.named_parameters():
        seed = options.seed * 100_003 + numbers[name]
        generator = torch.Generator(ranks.device).manual_seed(seed)
        value = initial_value(name, shapes[name], options.num_layers, generator)
        with torch.no_grad():
            local(parameter).copy_(own_part(value, parameter))
    if options.engine == "torch" and options.zero_stage < 2 and is_data_parallel_only(ranks):
        devices = [ranks.device] if ranks.device.type == "cuda" else None
        wrapped = DistributedDataParallel(model, device_ids=devices, gradient_as_bucket_view=True)
        return wrapped, parameters
    return model, parameters


def is_data_parallel_only(ranks: Ranks) -> bool:
    """Whether every rank has the whole model, or ZeRO's share of it."""
    return ranks.data_size == ranks.size


def local(tensor: Tensor) -> Tensor:
    """Return what this rank has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_part(value: Tensor, parameter: Tensor) -> Tensor:
    """Return what this rank holds of the whole ``value`` of a parameter.

    The tensor group's cut is the last dimension of the mesh and comes first: FSDP shares that part
    out.
    """
    if not isinstance(parameter, DTensor):
        return value
    mesh = parameter.device_mesh
    for i in reversed(range(mesh.ndim)):
        along: int | None = getattr(parameter.placements[i], "dim", None)  # None: replicated
        if along is not None:
            axis = mesh if mesh.ndim == 1 else mesh[(mesh.mesh_dim_names or ())[i]]
            value = distribute_tensor(value, axis, [Shard(along)], src_data_rank=None).to_local()
    return value


def alike(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Return the tensors by how they are spread: one operation on many takes only such as these."""
    groups: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        kind = tensor.device_mesh if isinstance(tensor, DTensor) else None
        groups.setdefault(kind, []).append(tensor)
    return list(groups.values())


def optimizer_for(model: nn.Module, options: Namespace, ranks: Ranks) -> torch.optim.Optimizer:
    """Return AdamW with GPT-2's betas; only matrices decay."""
    groups: list[dict[str, Any]] = [
        {"params": some, "weight_decay": decay}
        for matrices, decay in ((True, options.weight_decay), (False, 0.0))
        for some in alike([p for p in model.parameters() if (p.dim() >= 2) == matrices])
    ]
    common: dict[str, Any] = {
        "lr": options.lr,
        "betas": (0.9, 0.95),
        "fused": ranks.device.type == "cuda",
    }
    if options.zero_stage == 1 and options.engine == "torch":
        return ZeroRedundancyOptimizer(groups, optimizer_class=torch.optim.AdamW, **common)
    return torch.optim.AdamW(groups, **common)


def gradients_are_complete(
    model: nn.Module, last: bool, stage: int
) -> contextlib.AbstractContextManager[None]:
    """Return the context of one accumulated pass; ``last`` says that it ends the iteration.

    DDP averages gradients only in the last pass.  FSDP shares them out after each pass, since
    keeping them whole is what ZeRO 2 and 3 avoid; stage 2 keeps its weights from pass to pass.
    """
    if isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext() if last else model.no_sync()
    if isinstance(model, FSDPModule) and stage == 2:
        model.set_reshard_after_backward(last)
    return contextlib.nullcontext()


def average_gradients(model: nn.Module, ranks: Ranks) -> None:
    """Average over the data parallel ranks what neither DDP nor FSDP has averaged."""
    if isinstance(model, DistributedDataParallel | FSDPModule) or ranks.data_size == 1:
        return
    gradients = [local(p.grad) for p in model.parameters() if p.grad is not None]
    group = ranks.mesh.get_group("data")
    for work in [dist.all_reduce(each, group=group, async_op=True) for each in gradients]:
        if work is not None:
            work.wait()
    torch._foreach_div_(gradients, ranks.data_size)


def gradient_norm(model: nn.Module, ranks: Ranks) -> tuple[list[list[Tensor]], Tensor]:
    """Return the gradients, like with like, and the norm of all of them over all ranks.

    The last stage of a pipeline leaves the tied matrix to the first one, which has it too.
    """
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    twice = {id(p.grad) for name, p in model.named_parameters() if name == "token_embedding.weight"}
    if ranks.stage == 0:
        twice = set()
    counted = alike([each for each in gradients if id(each) not in twice])
    norms = [torch.nn.utils.get_total_norm(some) for some in counted]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    norm = torch.linalg.vector_norm(torch.stack(whole))
    if ranks.stages > 1:
        square = norm.square()
        dist.all_reduce(square, group=ranks.mesh.get_group("pipeline"))
        norm = square.sqrt()
    return alike(gradients), norm


def average(value: Tensor, ranks: Ranks) -> Tensor:
    """Return the mean over the ranks of a loss, in its place.

    Only the last stage of a pipeline has one; the others come with 0.
    """
    dist.all_reduce(value)
    return value.div_(ranks.size // ranks.stages)


def synchronize(ranks: Ranks) -> None:
    """Wait for the device to finish what it was given."""
    if ranks.device.type == "cuda":
        torch.cuda.synchronize(ranks.device)


def memory(ranks: Ranks) -> tuple[str, str]:
    """Return the allocated and the used MiB of every rank in rank order, for the printed line."""
    if ranks.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(ranks.device)
        own = [torch.cuda.max_memory_allocated(ranks.device) / MIB, (total - free) / MIB]
    else:  # the CPU allocator keeps no statistics; ru_maxrss is in KiB on Linux
        own = [float("nan"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    mine = torch.tensor(own, device=ranks.device)
    everyone = [torch.empty_like(mine) for _ in range(ranks.size)]
    dist.all_gather(everyone, mine)
    rows = torch.stack(everyone).tolist()
    texts = [["-" if value != value else f"{value:.1f}" for value in row] for row in rows]
    return ",".join(row[0] for row in texts), ",".join(row[1] for row in texts)


def explain(error: BaseException, ranks: Ranks | None) -> str | None:
    """Return one sentence for an error that a user can cure, None for one that is ours."""
    text = str(error)
    first = text.strip().split("\n")[0]
    if isinstance(error, TrainerError) or type(error).__name__ == "DatasetError":
        return text
    cure = "lower --micro-batch-size, raise --zero-stage or add --activation-checkpointing"
    if isinstance(error, torch.OutOfMemoryError):
        peak = torch.cuda.max_memory_allocated() / MIB
        asked = next((part for part in text.split(". ") if "ried to allocate" in part), first)
        return f"out of memory on the device at a peak of {peak:.0f} MiB ({asked}); {cure}"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in text:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        asked = text.split("DefaultCPUAllocator: ")[-1].strip().split("\n")[0]
        return f"out of memory on the host at a peak of {peak:.0f} MiB ({asked}); {cure}"
    if isinstance(error, dist.DistError) or any(words in text for words in LOST_PEER):
        who = "" if ranks is None else f"rank {ranks.rank} "
        return f"{who}lost contact with another rank ({first}); see that rank's own log"
    return None


def stop(error: BaseException, ranks: Ranks | None) -> NoReturn:
    """Print why this run ends and leave with status 1.

    Only the first rank to fail prints an expected error: what the others report is its echo.
    torchrun then ends the others.
    """
    sentence = explain(error, ranks)
    speak = True
    if sentence is None:
        traceback.print_exception(error)
    else:
        if ranks is None:  # before the group: all ranks of this node have the same error
            speak = os.environ.get("LOCAL_RANK", "0") == "0"
        else:
            with contextlib.suppress(Exception):  # the store may have gone with its rank
                speak = ranks.store.add("first_error", 1) == 1
        if speak:
            print(f"torch_gpt error: {sentence}", file=sys.stderr)
    # Nobody leaves at once.  torchrun ends the other ranks when the first has gone, perhaps before
    # the one that speaks has spoken; and without torchrun rank 0 holds the store they ask.
    sys.stderr.flush()
    time.sleep(1)
    leave(1)
