"""The machine's NVIDIA GPUs as device files, and whose they are."""

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from .system import RefusedError

GPU = re.compile(r"nvidia(\d+)")
Device = tuple[str, int]  # its file's name in /dev, its number (st_rdev)


def shares(dev: Path, nodes: int) -> list[list[Device]]:
    """Share the GPUs below `dev` (/dev) out: to each node as many, in their order, and the files
    that all need (nvidiactl, nvidia-uvm, ...). Raises RefusedError where there are too few.
    """
    found = [path for path in dev.glob("nvidia*") if stat.S_ISCHR(os.stat(path).st_mode)]
    common = [path for path in found if not GPU.fullmatch(path.name)]
    gpus = sorted(set(found) - set(common), key=lambda path: int(path.name[len("nvidia") :]))
    each = len(gpus) // nodes
    if not each:
        has = f"{len(gpus)} NVIDIA GPU{'' if len(gpus) == 1 else 's'}" if gpus else "no NVIDIA GPU"
        raise RefusedError(f"this machine has {has}, and {nodes} nodes want one each")
    return [_devices([*gpus[at : at + each], *common]) for at in range(0, each * nodes, each)]


def _devices(paths: Sequence[Path]) -> list[Device]:
    return [(path.name, os.stat(path).st_rdev) for path in sorted(paths)]
