"""What the owner of a server allowed, and whether a matrix stays within it.

An agent names a matrix of one folder. Its text is read once, checked, and copied: what runs is what
was checked, whatever becomes of the file.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from node.files import open_plain
from node.printable import printable
from runner.agent.leaves import COMMAND, ENV, SETUP
from runner.base.errors import UserError
from runner.base.exclusive import make_private
from runner.base.files import write_text
from runner.matrix.dialect import read_file
from runner.matrix.file import parse_matrix
from runner.systems.common.registry import load_system
from runner.terms.cell import Cell, Matrix
from runner.terms.cluster import Cluster

COPIES = ".agent"  # in the folder of runs: the texts of matrices that were run
# Variables that tune a run and name no file, program or library.
TUNING = frozenset(
    {
        *("NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS"),
        *("NCCL_MAX_NCHANNELS", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"),
        *("NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"),
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_DEVICE_MAX_CONNECTIONS"),
        *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TORCH_NCCL_AVOID_RECORD_STREAMS"),
        *("TORCH_NCCL_ASYNC_ERROR_HANDLING", "NVTE_FUSED_ATTN", "NVTE_FLASH_ATTN"),
    }
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\.ya?ml")


@dataclass(frozen=True)
class Owner:
    """What the owner said when the server was started. `budget_h` is in node-hours."""

    matrices: Path
    cluster: Cluster
    inventory: Path
    runs: Path
    budget_h: float
    leaves: frozenset[str]


@dataclass(frozen=True)
class AllowedMatrix:
    """A matrix that was checked, and the copy of its text that is run."""

    matrix: Matrix
    copy: Path

    @property
    def nodes(self) -> int:
        """The most nodes that a cell takes."""
        return max(cell.nodes for cell in self.matrix.cells)


def names_of(owner: Owner) -> list[str]:
    """List the matrices that an agent may name."""
    return sorted(path.name for path in owner.matrices.iterdir() if _NAME.fullmatch(path.name))


def allowed(owner: Owner, name: str) -> AllowedMatrix:
    """Read, check and copy a matrix. Raises UserError where it leaves what the owner allowed."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{printable(name)[:100]!r} is not a file's name such as zero.yaml;{_matrices(owner)}"
        )
    path = owner.matrices / name
    try:
        with open_plain(path):  # follows no link
            pass
    except OSError:
        raise UserError(
            f"there is no matrix {name} in the owner's folder;{_matrices(owner)}"
        ) from None
    text = read_file(path, "a matrix")
    matrix = parse_matrix(text, name, path.stem, owner.cluster.devices_of)
    if matrix.tune is not None:
        raise UserError(f"{name} has `tune`, which the tools here do not run; name axes")
    for cell in matrix.cells:
        for problem in _forbidden(cell, owner.leaves):
            raise UserError(f"{name}: {problem}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    folder = owner.runs / COPIES / digest[:16]
    make_private(folder)
    copy = folder / name
    if not os.path.lexists(copy):
        write_text(copy, text)
    return AllowedMatrix(matrix, copy)


def _matrices(owner: Owner) -> str:
    return f" matrices: {', '.join(names_of(owner)[:20]) or 'the folder is empty'}"


def _forbidden(cell: Cell, leaves: frozenset[str]) -> Iterator[str]:
    """Yield what a cell has that the owner did not allow."""
    if load_system(cell.system).own_keys and COMMAND not in leaves:
        yield (
            f"cell {printable(cell.name)[:80]} has `system: {cell.system}`, a program of the"
            f" matrix's own; only the owner can allow it (--allow {COMMAND})"
        )
    if cell.placement and SETUP not in leaves:
        keys = ", ".join(sorted(cell.placement))
        yield f"keys of a scheduler ({keys}) need the owner's leave (--allow {SETUP})"
    variables = sorted(set(cell.env) - TUNING)
    if variables and ENV not in leaves:
        yield (
            f"env {printable(variables[0])[:80]} may have other code run; only the owner can allow"
            f" it (--allow {ENV})"
        )
