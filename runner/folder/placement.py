"""What of a run only its job knows: where it runs, and as which job it was handed over. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from node.schema import List, Whole
from node.validated_text import HostName
from runner.terms.orders import MOST_NODES, Host, Line, Port, Rank, Variable
from runner.terms.outcome import Time, Word

Hosts = Annotated[tuple[Host, ...], List(HostName, MOST_NODES, 1, tuple)]
JobId = Annotated[int, Whole(1, 2**32)]


@dataclass(frozen=True)
class Placement:
    """placement.json, which node rank 0 of a job writes: each list has an entry a node, by rank.

    `devices` are the indices of those that the job has on each node, `cpus` how many it may use;
    `restart` counts how often the job was started before; `at` is when all nodes had come;
    `switch` names the switches above each node (`top.leaf0`), where Slurm knows them.
    """

    host: Hosts
    address: tuple[Line, ...]
    devices: tuple[tuple[Rank, ...], ...]
    cpus: tuple[int, ...]
    port: Port
    job_id: Word = ""
    step_id: Word = ""
    restart: int = 0
    at: Time = 0.0
    switch: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Started:
    """started.json: what a node of a job started, with the words of the plan filled in."""

    argv: tuple[str, ...]
    env: Mapping[Variable, str]
    cwd: Line
    processes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Submitted:
    """slurm.json, written before a run is handed over, and again with the job's id.

    `mark` is in the job's comment, and in the environment of its processes; `restart` is how often
    the job had been started before this attempt.
    """

    mark: Word
    submitted_at: Time
    job_id: JobId | None = None
    restart: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return what the file holds."""
        return asdict(self)
