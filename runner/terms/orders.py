"""What is to run on the nodes, and for how long: of run.json what an engine needs.

The standard library alone: the launch plugin reads its node's part by this, and makes of it the job
that it sends to the supervisor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from node.schema import AnyOf, List, Number, Text, Whole
from node.validated_text import HostName, InsidePath, VariableName
from runner.base.dataclass_schema import shape
from runner.terms.faults import Fault

GRACE_S = 5.0  # between TERM and KILL
LOG_CAP_BYTES = 256 * 1024 * 1024  # of a node's log that is brought to the control node
LOG_LIMIT_BYTES = 4 * 1024**3  # of a node's log, then the run is ended: before its disk is full

MOST_NODES = 100_000  # and as many devices of one
# What JSON may hold of a field; in the code they are text and numbers as any.
Host = Annotated[str, HostName]
Variable = Annotated[str, VariableName]
Inside = Annotated[str, InsidePath]
Line = Annotated[str, Text(most=10_000)]
Path = Annotated[str, Text(r"(?:/.*)?", most=10_000)]
Asked = Annotated[Any, AnyOf(Text(most=10_000), List(Text(most=10_000), make=tuple))]
Rank = Annotated[int, Whole(0, MOST_NODES)]
Port = Annotated[int, Whole(1, 65_535)]
Seconds = Annotated[float, Number(0)]


@dataclass(frozen=True)
class NodeRun:
    """One node's part of a run. `dir` and `runs` are folders on the node.

    `serves`, `after`, `step`, `processes` and `tasks`: see `Command`. `scratch`: a folder of the
    run's own on a disk of the node's own, which is made before it and removed with it; "" for none.
    """

    host: Host
    node_rank: Rank
    argv: tuple[str, ...]
    env: Mapping[Variable, str]
    cwd: Line
    files: Mapping[Inside, str]
    requires: Mapping[Line, int | None]
    ports: tuple[Port, ...]
    device: Line
    device_ids: tuple[Rank, ...]
    runs: Line
    dir: Line
    serves: bool = False
    after: tuple[tuple[str, ...], ...] = ()
    step: tuple[str, ...] = ()
    scratch: Path = ""
    processes: tuple[tuple[str, ...], ...] = ()
    tasks: Rank = 0

    def __post_init__(self) -> None:
        """Put argv in place of what run.json has as empty: a process that starts just that."""
        expanded = tuple(process or self.argv for process in self.processes)
        object.__setattr__(self, "processes", expanded)

    def to_json(self) -> dict[str, Any]:
        """Return a node of run.json: a process whose argv is the node's is an empty list there."""
        processes = [() if process == self.argv else process for process in self.processes]
        return {**asdict(self), "processes": processes}

    @property
    def waits(self) -> bool:
        """Whether another node's launcher starts its processes: it has none, or lets it in."""
        return not self.argv or self.serves


@dataclass(frozen=True)
class Chain:
    """The attempts of a repeat that go on from each other's checkpoints.

    `folder` holds these, and which faults have been: every node of the run sees it. `iteration`
    finds the number of an iteration in a line of the log (a regular expression with one group; "":
    none is known). `one_end`: a fault that ends an attempt is the last one in it that counts
    seconds; else the attempt outlives it (torchrun).
    """

    folder: Path
    faults: tuple[Fault, ...] = ()
    iteration: Line = ""
    one_end: bool = True


Nodes = Annotated[tuple[NodeRun, ...], List(shape(NodeRun), MOST_NODES, 1, tuple)]


def lease_s(lost_contact_s: float) -> float:
    """Return how long a node goes on with a run that nobody tells it to.

    Longer than bench waits for a silent node: where the machine that runs bench is slow, bench is
    late to ask, and no node may end a run for that.
    """
    return 2 * lost_contact_s


@dataclass(frozen=True)
class Limits:
    """When a run is ended from outside, and how much of its logs is kept."""

    time_limit_s: Seconds
    stall_limit_s: Seconds
    lost_contact_s: Seconds
    grace_s: Seconds = GRACE_S
    log_cap_bytes: int = LOG_CAP_BYTES
    log_limit_bytes: int = LOG_LIMIT_BYTES


@dataclass(frozen=True)
class Orders:
    """What all nodes of a run start. `secrets` are names of variables that the inventory has.

    `placement` is what its cell asks of a scheduler in place of the inventory. `setup` and
    `teardown`: lines that bash runs on each node before the trainer, and after the run.
    """

    run_id: Line
    limits: Limits = field(metadata={"key": "supervisor"})
    nodes: Nodes
    secrets: tuple[Variable, ...] = ()
    placement: Mapping[Line, Asked] = field(default_factory=dict)
    setup: tuple[Line, ...] = ()
    teardown: tuple[Line, ...] = ()
    chain: Chain | None = None

    def to_json(self) -> dict[str, Any]:
        """Return these keys of run.json."""
        return {
            "run_id": self.run_id,
            "supervisor": asdict(self.limits),
            "nodes": [node.to_json() for node in self.nodes],
            "secrets": list(self.secrets),
            **({"placement": dict(self.placement)} if self.placement else {}),
            **({"setup": list(self.setup)} if self.setup else {}),
            **({"teardown": list(self.teardown)} if self.teardown else {}),
            **({"chain": asdict(self.chain)} if self.chain else {}),
        }

    @property
    def tasks(self) -> int:
        """How many tasks a scheduler starts on each node."""
        return max(1, self.nodes[0].tasks)

    def job(self, node: NodeRun) -> dict[str, Any]:
        """Return what one node's supervisor is told of its part; the rest is the launcher's."""
        fields = asdict(node)
        for key in ("host", "node_rank", "serves", "step", "tasks"):
            del fields[key]
        chain = {**asdict(self.chain), "node": node.node_rank} if self.chain else None
        return {"run_id": self.run_id, **fields, **asdict(self.limits), "chain": chain}
