"""What is to run on the nodes, and for how long: of run.json what an engine needs.

The standard library alone: the launch plugin reads its node's part by this, and makes of it the job
that it sends to the supervisor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

GRACE_S = 5.0  # between TERM and KILL
LOG_CAP_BYTES = 256 * 1024 * 1024  # of a node's log that is brought to the control node
LOG_LIMIT_BYTES = 4 * 1024**3  # of a node's log, then the run is ended: before its disk is full


@dataclass(frozen=True)
class NodeRun:
    """One node's part of a run. `dir` and `runs` are folders on the node.

    `serves` and `after`: see `Command`.
    """

    host: str
    node_rank: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: Mapping[str, str]
    requires: Mapping[str, int | None]
    ports: tuple[int, ...]
    device: str
    device_ids: tuple[int, ...]
    runs: str
    dir: str
    serves: bool = False
    after: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> NodeRun:
        """Return the node's part that a run.json holds."""
        lists = {key: tuple(content[key]) for key in ("argv", "ports", "device_ids")}
        after = tuple(tuple(argv) for argv in content.get("after", ()))
        return cls(**{**content, **lists, "after": after})

    @property
    def waits(self) -> bool:
        """Whether another node's launcher starts its processes: it has none, or lets it in."""
        return not self.argv or self.serves


@dataclass(frozen=True)
class Limits:
    """When a run is ended from outside, and how much of its logs is kept."""

    time_limit_s: float
    stall_limit_s: float
    lost_contact_s: float
    grace_s: float = GRACE_S
    log_cap_bytes: int = LOG_CAP_BYTES
    log_limit_bytes: int = LOG_LIMIT_BYTES


@dataclass(frozen=True)
class Orders:
    """What all nodes of a run start. `secrets` are names of variables that the inventory has."""

    run_id: str
    limits: Limits
    nodes: tuple[NodeRun, ...]
    secrets: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return these keys of run.json."""
        return {
            "run_id": self.run_id,
            "supervisor": asdict(self.limits),
            "nodes": [asdict(node) for node in self.nodes],
            "secrets": list(self.secrets),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Orders:
        """Return what a run.json orders. Raises KeyError or TypeError for another version's."""
        return cls(
            run_id=content["run_id"],
            limits=Limits(**content["supervisor"]),
            nodes=tuple(NodeRun.from_json(node) for node in content["nodes"]),
            secrets=tuple(content.get("secrets", ())),
        )

    def job(self, node: NodeRun) -> dict[str, Any]:
        """Return what one node's supervisor is told of its part; the launcher's place is not."""
        part = asdict(node)
        for key in ("host", "node_rank", "serves"):
            del part[key]
        return {"run_id": self.run_id, **part, **asdict(self.limits)}
