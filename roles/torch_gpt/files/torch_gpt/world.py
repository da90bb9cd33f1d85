"""This process among all: joining the group, agreeing, what is measured, and leaving in order."""

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
from context_group import ContextGroup
from experts import ExpertGroup
from partial_attention import kernel_of
from rules import TrainerError
from tensor_group import TensorGroup
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

MIB = 1 << 20
# Triton's and inductor's words where there is nothing to build with, and the compiler's own.
NO_COMPILER = (
    "Failed to find C compiler",
    "No working C++ compiler found",
    "Python.h: No such file",
)
# Those of scaled_dot_product_attention: of no kernel that may run, and of none that was left on.
NO_ATTENTION = ("No available kernel. Aborting", "No viable backend for scaled_dot_product")
# What a rank sees when another one has gone: gloo's words, then NCCL's.
LOST_PEER = ("Connection closed by peer", "Connection reset by peer", "Socket closed",
             "Timed out waiting", "remote process exited", "Connection refused")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Ranks:
    """This process among all; ``node_first`` is true for one rank of each node.

    The mesh has the dimensions pipeline, data and tensor; the ranks of a tensor group, which talk
    most, are next to each other.  Those along data have the same weights: they are context groups,
    next to each other, and ``data_rank`` and ``data_size`` say which samples are this group's.
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
    context: ContextGroup
    expert_mesh: DeviceMesh | None = None  # data as expert_data x expert, where ranks share experts

    @property
    def expert_group(self) -> ExpertGroup:
        """This rank's expert group."""
        name = self.mesh.get_group("data").group_name if self.replicas > 1 else ""
        if self.expert_mesh is None:
            return ExpertGroup(data_size=self.replicas, data_name=name)
        mesh = self.expert_mesh["expert"]
        group = mesh.get_group().group_name
        return ExpertGroup(mesh.size(), mesh.get_local_rank(), group, self.replicas, name)

    @property
    def replicas(self) -> int:
        """How many ranks have the same weights, and each gradients of its own tokens."""
        return self.data_size * self.context.size

    @property
    def tensor_group(self) -> TensorGroup:
        """This rank's tensor group."""
        size = self.mesh["tensor"].size()
        name = self.mesh.get_group("tensor").group_name if size > 1 else ""
        return TensorGroup(size, self.mesh.get_local_rank("tensor"), name)


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
    replicas = size // (stages * tensor)
    names = ("pipeline", "data", "tensor")
    mesh = init_device_mesh(device.type, (stages, replicas, tensor), mesh_dim_names=names)
    context = _context_group(mesh, options, device)
    expert_mesh, split = None, options.expert_parallel
    if split > 1:
        expert_mesh = init_device_mesh(
            device.type,
            (stages, replicas // split, split, tensor),
            mesh_dim_names=("pipeline", "expert_data", "expert", "tensor"),
        )
    return Ranks(
        *(rank, size, size // local_size, local == 0, device, backend, store, mesh),
        data_rank=mesh.get_local_rank("data") // context.size,
        data_size=replicas // context.size,
        stage=mesh.get_local_rank("pipeline"),
        stages=stages,
        context=context,
        expert_mesh=expert_mesh,
    )


def _context_group(mesh: DeviceMesh, options: Namespace, device: torch.device) -> ContextGroup:
    """Return this rank's context group; every rank takes part in making every group."""
    size = options.context_parallel
    if size == 1:
        return ContextGroup()
    groups = mesh.mesh.unflatten(1, (-1, size)).movedim(2, -1).flatten(0, 2).tolist()
    group, _ = dist.new_subgroups_by_enumeration(groups)
    kernel = kernel_of(options, device)
    return ContextGroup(size, mesh.get_local_rank("data") % size, group.group_name, kernel)


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


def memory(ranks: Ranks) -> dict[str, str]:
    """Return each figure of memory in MiB, of every rank in rank order, for the printed line."""
    none = float("nan")
    if ranks.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(ranks.device)
        allocated = torch.cuda.max_memory_allocated(ranks.device)
        reserved = torch.cuda.max_memory_reserved(ranks.device)
        own = [allocated / MIB, reserved / MIB, (total - free) / MIB, none]
    else:  # the CPU allocator keeps no statistics; ru_maxrss is in KiB on Linux
        own = [none, none, none, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    mine = torch.tensor(own, device=ranks.device)
    everyone = [torch.empty_like(mine) for _ in range(ranks.size)]
    dist.all_gather(everyone, mine)
    rows = torch.stack(everyone).tolist()
    texts = [["-" if value != value else f"{value:.1f}" for value in row] for row in rows]
    names = ("allocated", "reserved", "used", "rss")
    each = zip(*texts, strict=True)
    return {f"memory_{name}_mib": ",".join(of) for name, of in zip(names, each, strict=True)}


def explain(error: BaseException, ranks: Ranks | None) -> str | None:
    """Return one sentence for an error that a user can cure, None for one that is ours."""
    text = str(error)
    first = text.strip().split("\n")[0]
    if isinstance(error, TrainerError) or type(error).__name__ == "DatasetError":
        return text
    cure = "lower --micro-batch-size, raise --zero-stage or set --activation-checkpointing"
    if isinstance(error, torch.OutOfMemoryError):
        peak = torch.cuda.max_memory_allocated() / MIB
        asked = next((part for part in text.split(". ") if "ried to allocate" in part), first)
        return f"out of memory on the device at a peak of {peak:.0f} MiB ({asked}); {cure}"
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in text:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        asked = text.split("DefaultCPUAllocator: ")[-1].strip().split("\n")[0]
        return f"out of memory on the host at a peak of {peak:.0f} MiB ({asked}); {cure}"
    if any(words in text for words in NO_COMPILER):
        return (
            f"torch.compile cannot build its kernels here ({first}); install a C compiler and this "
            "Python's headers (gcc, python3-dev), or set --compile none"
        )
    if any(words in text for words in NO_ATTENTION):
        return (
            "the kernel of --attention-backend cannot compute this attention here, on this device, "
            "in this precision and with heads of this size; take another, or auto"
        )
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
