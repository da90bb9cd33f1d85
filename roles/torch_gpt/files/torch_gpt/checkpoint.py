"""Checkpoints: weights, optimizer, data position and random state, saved and found again.

torch.distributed.checkpoint (DCP) writes and reads the tensors, each as a part of a whole one, so
that a checkpoint of one layout (ZeRO stage, tensor, pipeline and data parallel size) loads in any
other.  A folder ``step-00000040`` has DCP's files and ``trainbench.json``, the manifest: a token of
the campaign that wrote it, the position in the data, and each file's size and SHA-256.

Durable: all files and the manifest are written and synced to the disk in ``step-00000040.partial``;
then the folder gets its name, and the folder above is synced.  What was interrupted before is never
read.  Only a folder whose manifest has this campaign's token and whose files have their checksums
is loaded (DCP's metadata is pickle, which runs code); else the one before it is taken.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import re
import shutil
import stat
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from expert_load import is_expert
from sharding import Optimizers
from tensor_group import cut
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement
from world import Ranks

MANIFEST = "trainbench.json"
PARTIAL = ".partial"
NAME = re.compile(r"step-(\d{8})")
FULL, LEAST_BYTES = "No space left on device", 1 << 16
MOST_MANIFEST = 64 << 20  # bytes that are read of one
MOMENTS = ("exp_avg", "exp_avg_sq")
WRAPPERS = re.compile(r"(?:^module\.)|(?:_orig_mod\.)")


@dataclasses.dataclass(frozen=True)
class Position:
    """How far training is: iterations and samples that are done, and the loss scale of fp16."""

    iteration: int = 0
    samples: int = 0
    loss_scale: float = 1.0
    good_steps: int = 0


class Checkpoints:
    """The checkpoints of one run, on all ranks.

    Args:
        options: the folder, how many stay, the campaign's token, and whether saves go on behind.
        model: on this rank; its tensors are saved, and filled in place.
        say: prints a line ``torch_gpt KIND key=value ...``; called on rank 0 alone.
    """

    def __init__(
        self,
        options: Namespace,
        ranks: Ranks,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | Optimizers,
        say: Callable[..., None],
    ) -> None:
        self.folder = Path(options.checkpoint_dir)
        self.keep, self.token = options.checkpoint_keep, options.checkpoint_token
        self.in_background = options.checkpoint_async
        self.ranks, self.say = ranks, say
        self.model = model
        parts = optimizer.optimizers if isinstance(optimizer, Optimizers) else (optimizer,)
        optimizers = [
            shard_tensor.optim
            if isinstance(shard_tensor, ZeroRedundancyOptimizer)
            else shard_tensor
            for shard_tensor in parts
        ]
        self.owners = {
            id(p): item
            for item in optimizers
            for group in item.param_groups
            for p in group["params"]
        }
        self.fused = options.adamw == "fused"
        # Of its own: a save in the background has its collectives beside those of training.
        self.group = dist.new_group(backend="gloo")
        self.saving: threading.Thread | None = None
        self.reports: list[dict[str, Any]] = []

    def _mesh_on(self, device: str, *, apart: bool = False) -> DeviceMesh:
        """Return the stage's ranks, cut by tensor, then data; without groups: nothing is sent.

        `apart`: cut by tensor, expert, then by those that have the same experts.
        """
        mesh, names = self.ranks.mesh, ("tensor", "data")
        if apart and self.ranks.expert_mesh is not None:
            mesh, names = self.ranks.expert_mesh, ("tensor", "expert", "expert_data")
        stage = mesh.mesh[self.ranks.stage]
        order = stage.permute(*reversed(range(stage.dim()))).contiguous()
        return DeviceMesh(device, order, mesh_dim_names=names, _init_backend=False)

    # What is saved: names to tensors, each a part of a whole one.

    def _global(self, name: str, shard_tensor: Tensor) -> Tensor:
        """Return this rank's part as one of the whole tensor.

        It is cut by tensor ranks, and the experts by ranks that have others; FSDP cuts what is
        left by data ranks.
        """
        ranks, shard = self.ranks, isinstance(shard_tensor, DTensor)
        along = cut(name) if ranks.tensor_group.size > 1 else None
        apart = ranks.expert_mesh is not None and is_expert(name)
        if not shard and along is None and not apart:
            return shard_tensor
        local = shard_tensor.to_local() if isinstance(shard_tensor, DTensor) else shard_tensor
        shape = list(shard_tensor.shape)
        places: list[Placement] = [Replicate() if along is None else Shard(along)]
        if along is not None:
            shape[along] *= ranks.tensor_group.size
        if apart:
            shape[0] *= ranks.expert_group.size
            places.append(Shard(0))
        return DTensor.from_local(
            local,
            self._mesh_on(ranks.device.type, apart=apart),
            (*places, Shard(0) if shard else Replicate()),
            run_check=False,
            shape=torch.Size(shape),
            stride=torch.empty(shape, device="meta").stride(),
        )

    def _states(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """Return the optimizer's states of a parameter; none where another rank has them."""
        optimizer = self.owners.get(id(parameter))
        if optimizer is None:
            return {}
        states: dict[str, Tensor] = optimizer.state[parameter]
        if not states:  # it has not stepped yet: to be loaded
            device = parameter.device if self.fused else torch.device("cpu")
            states["step"] = torch.zeros((), device=device)
            for moment in MOMENTS:
                states[moment] = torch.zeros_like(parameter.detach())
        return states

    def _state(self) -> dict[str, Any]:
        """Return all tensors by name."""
        state: dict[str, Any] = {}
        for name, parameter in self.model.named_parameters():
            name = WRAPPERS.sub("", name)
            state[f"model.{name}"] = self._global(name, parameter.detach())
            for key, value in self._states(parameter).items():
                global_tensor = self._global(name, value) if key in MOMENTS else value
                state[f"optimizer.{name}.{key}"] = global_tensor
        for name, buffer in self.model.named_buffers():
            state[f"model.{WRAPPERS.sub('', name)}"] = buffer
        return state

    def _random(self) -> dict[str, Tensor]:
        """Return the states of this rank's generators, which another layout does not take over."""
        name = f"random.{self.ranks.rank}_of_{self.ranks.size}"
        states = {f"{name}.torch": torch.get_rng_state()}
        if self.ranks.device.type == "cuda":
            states[f"{name}.cuda"] = torch.cuda.get_rng_state()
        states[f"{name}.python"] = torch.tensor(random.getstate()[1])  # 625 words
        return states

    def _restore_random(self, states: dict[str, Tensor]) -> None:
        for name, value in states.items():
            if name.endswith(".torch"):
                torch.set_rng_state(value)
            elif name.endswith(".cuda"):
                torch.cuda.set_rng_state(value)
            else:
                random.setstate((3, tuple(value.tolist()), None))

    # Saving.

    def save(self, position: Position) -> float:
        """Save; return the seconds that training stood still for it.

        In the background the state is copied to memory first; a save that still goes on is waited
        for.  One that fails (a full disk) says so and leaves the checkpoints before it.
        """
        began = time.perf_counter()
        self.settle()
        state = {**self._state(), **self._random()}
        name = f"step-{position.iteration:08d}"
        partial = self.folder / (name + PARTIAL)
        if self.in_background:
            state = self._copied(state)

        def write() -> None:
            self._write(state, partial, name, position, began, stall)

        stall = [0.0]
        if self.in_background:
            self.saving = threading.Thread(target=write, name="checkpoint")
            self.saving.start()
        stall[0] = time.perf_counter() - began
        if not self.in_background:
            write()
            self.tell()
        return time.perf_counter() - began

    def _copied(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state in memory of its own, which training does not change."""

        def copy(tensor: Tensor) -> Tensor:
            if not isinstance(tensor, DTensor):
                return tensor.detach().to("cpu", copy=True)
            return DTensor.from_local(
                tensor.to_local().detach().to("cpu", copy=True),
                self._mesh_on("cpu", apart=len(tensor.placements) > 2),
                tensor.placements,
                run_check=False,
                shape=tensor.shape,
                stride=tensor.stride(),
            )

        return {name: copy(value) for name, value in state.items()}

    def _write(
        self,
        state: dict[str, Any],
        partial: Path,
        name: str,
        position: Position,
        began: float,
        stall: list[float],
    ) -> None:
        problem = None
        files: dict[str, dict[str, Any]] = {}
        wrote_at = time.perf_counter()
        try:
            if self.ranks.rank == 0:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True, mode=0o700)
            dist.barrier(group=self.group)
            dcp.save(state, checkpoint_id=partial, process_group=self.group, no_dist=False)
            files = self._own_files(partial)
        except (Exception, CheckpointException) as error:  # training goes on all the same
            problem = FULL if _is_full(self.folder) else _why(error)
        everyone: list[Any] = [None] * self.ranks.size
        dist.all_gather_object(everyone, (problem, files), group=self.group)
        problem = next((item for item, _ in everyone if item), None)
        if self.ranks.rank:
            return
        files = {file: facts for _, item in everyone for file, facts in item.items()}
        try:
            if problem is None:
                self._commit(partial, name, position, files)
        except OSError as error:
            problem = _why(error)
        if problem is not None:
            shutil.rmtree(partial, ignore_errors=True)
            self.reports.append({"failed": position.iteration, "why": problem})
            return
        now = time.perf_counter()
        total = sum(int(facts["bytes"]) for facts in files.values())
        self.reports.append(
            {
                "step": position.iteration,
                "stall_s": f"{(stall[0] if self.in_background else now - began):.4f}",
                "durable_s": f"{now - began:.4f}",
                "write_s": f"{now - wrote_at:.4f}",
                "bytes": total,
            }
        )

    def _own_files(self, partial: Path) -> dict[str, dict[str, Any]]:
        """Return size and checksum of each file that this rank wrote; rank 0 wrote .metadata."""
        mine = [path for path in partial.glob(f"__{self.ranks.rank}_*") if path.is_file()]
        if self.ranks.rank == 0:
            mine.append(partial / ".metadata")
        return {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in mine}

    def _commit(
        self, partial: Path, name: str, position: Position, files: dict[str, dict[str, Any]]
    ) -> None:
        """Write the manifest, sync all, and give the folder its name; remove the oldest."""
        content = {
            "schema": 1,
            "token": self.token,
            **dataclasses.asdict(position),
            "world_size": self.ranks.size,
            "files": files,
        }
        with open(partial / MANIFEST, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        for file in files:
            _sync(partial / file)
        _sync(partial)
        final = self.folder / name
        if final.exists():  # of an attempt that a later one took the place of
            shutil.rmtree(final)
        partial.rename(final)
        _sync(self.folder)
        for old in self._there()[self.keep :]:
            shutil.rmtree(old, ignore_errors=True)

    def settle(self) -> None:
        """Wait for a save in the background, and tell what became of it."""
        if self.saving is not None:
            self.saving.join()
            self.saving = None
        self.tell()

    def tell(self) -> None:
        """Print what is known of saves that are over; on rank 0, from the loop's thread."""
        while self.reports:
            self.say("checkpoint", **self.reports.pop(0))

    # Loading.

    def _there(self) -> list[Path]:
        """Return the folders with a whole checkpoint's name, the newest first."""
        folders = [path for path in self.folder.glob("step-*") if NAME.fullmatch(path.name)]
        return sorted(folders, reverse=True)

    def load(self) -> tuple[Position, float, int]:
        """Load the newest checkpoint that is good; return its position, seconds and bytes.

        Position 0 without one.  Those that are refused are named on rank 0.
        """
        began = time.perf_counter()
        names: list[Any] = [[path.name for path in self._there()] if not self.ranks.rank else []]
        dist.broadcast_object_list(names, src=0, group=self.group)
        for name in names[0]:
            path = self.folder / name
            everyone: list[Any] = [None] * self.ranks.size
            dist.all_gather_object(everyone, self._fault(path), group=self.group)
            fault = next((item for item in everyone if item), None)
            if fault is None:
                position, size = self._load(path)
                return position, time.perf_counter() - began, size
            if self.ranks.rank == 0:
                self.say("checkpoint", refused=name, why=fault)
        return Position(), time.perf_counter() - began, 0

    def _fault(self, path: Path) -> str | None:
        """Say why a checkpoint cannot be taken; each rank reads its part of the files."""
        try:
            content = self._manifest(path)
            if content["schema"] != 1 or content["token"] != self.token:
                return "another campaign wrote it"
            files = sorted(content["files"].items())
            for file, facts in files[self.ranks.rank :: self.ranks.size]:
                if "/" in file or (path / file).stat().st_size != facts["bytes"]:
                    return f"{file} is not {facts['bytes']} bytes"
                if _sha256(path / file) != facts["sha256"]:
                    return f"{file} has another checksum"
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return _why(error)
        return None

    def _manifest(self, path: Path) -> dict[str, Any]:
        """Read a manifest of this user's own folder. Raises OSError, ValueError."""
        entry = os.lstat(path)
        if not stat.S_ISDIR(entry.st_mode) or entry.st_uid != os.geteuid():
            raise ValueError("it is not this user's own folder")
        handle = os.open(path / MANIFEST, os.O_RDONLY | os.O_NOFOLLOW)
        with open(handle, encoding="utf-8") as stream:
            return dict(json.loads(stream.read(MOST_MANIFEST)))

    def _load(self, path: Path) -> tuple[Position, int]:
        content = self._manifest(path)
        state = self._state()
        states = self._random() if content["world_size"] == self.ranks.size else {}
        to_load = {**state, **states}
        dcp.load(to_load, checkpoint_id=path, process_group=self.group)
        self._restore_random({name: to_load[name] for name in states})
        fields = [field.name for field in dataclasses.fields(Position)]
        position = Position(**{name: content[name] for name in fields})
        return position, sum(int(facts["bytes"]) for facts in content["files"].values())


def _is_full(folder: Path) -> bool:
    """Whether a disk is full, which torch's writer does not say when it fails."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize < LEAST_BYTES


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _why(error: BaseException) -> str:
    """Return an error as one short clause; DCP's has each rank's own in it."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))
        error = error[0] if isinstance(error, tuple) else error
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:200]
