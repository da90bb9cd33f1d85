"""What a run can be checked by: the exact command of each node, its variables, its logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class NodeLog:
    """What a node's launcher printed: `path` in the run's folder, and how many bytes there are.

    `tail` has its last lines, printable; `bytes` is None and `missing` says why where it cannot be
    read. `secrets` are values that no reader is to see, wherever the log repeats them.
    """

    path: str
    bytes: int | None = None
    tail: tuple[str, ...] = ()
    missing: str = ""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class NodeEvidence:
    """One node's part: what it started by exec, in which folder, with which variables.

    `commands` has an argv for each process that the node starts; none where another node's
    launcher starts them, or nobody knows, which `note` says. `env` is what the plan sets; of the
    node's own a process has HOME and the like beside (launch.sh). `files` are written into the
    run's folder on the node first. `step` are srun's options of a container.
    """

    rank: int
    host: str
    log: NodeLog
    commands: tuple[tuple[str, ...], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    files: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    note: str = ""
    traces: tuple[str, ...] = ()  # of a profiler, in the run's folder


@dataclass(frozen=True)
class Evidence:
    """One attempt of a cell's repeat, node by node (by rank).

    It was read in `folder`; `shown` is the same folder as who reads the page or table finds it.
    `script` is launch.sh in it, "" if it is missing. `secrets` are names of variables whose
    values no file holds. `missing` says why no node has a command, where none has.
    """

    cell_id: str
    repeat: int
    attempt: int
    folder: Path
    shown: str = ""
    nodes: tuple[NodeEvidence, ...] = ()
    secrets: tuple[str, ...] = ()
    script: str = ""
    missing: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """What a record of the same run is found by."""
        return self.cell_id, self.repeat

    def href(self, path: str) -> str:
        """Return a file of the run as a reader of the page finds it."""
        return f"{self.shown}/{path}" if self.shown else path


Evidences = Mapping[tuple[str, int], Evidence]  # by a cell's id and the repeat


@dataclass(frozen=True)
class PackedLog:
    """A whole log, compressed: `path` as readers of the page find it, its `bytes` unpacked.

    `data` is gzip in base64; "" with the reason in `left_out` where it was not packed.
    """

    path: str
    bytes: int
    data: str = ""
    left_out: str = ""
