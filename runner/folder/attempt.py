"""One run's folder: what was planned, what came back of each node, how it ended."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.base.exclusive import create_once
from runner.folder.stored import SCHEMA, read_json


@dataclass(frozen=True)
class Attempt:
    """One run's folder."""

    path: Path
    cell_id: str
    repeat: int
    number: int

    @property
    def run(self) -> dict[str, Any] | None:
        """run.json: what was asked for. Written once, before the launch; kept once read."""
        content: dict[str, Any] | None = self.__dict__.get("_run")
        if content is None and (content := read_json(self.path / "run.json")) is not None:
            self.__dict__["_run"] = content
        return content

    @property
    def outcome(self) -> dict[str, Any] | None:
        """outcome.json: how it ended; None while it runs, or where bench died."""
        return read_json(self.path / "outcome.json")

    @property
    def planned_at(self) -> float:
        """When run.json was written, just before the launch (epoch seconds)."""
        path = self.path / "run.json"
        return (path if path.exists() else self.path).stat().st_mtime

    @property
    def halt(self) -> dict[str, Any] | None:
        """halt: what ended the run first; None where every node ended by itself."""
        return read_json(self.path / "halt")

    def node(self, rank: int, host: str) -> Path:
        """The folder of one node's logs."""
        return self.path / "nodes" / f"{rank:04d}-{host}"

    def log(self, rank: int, host: str) -> Path:
        """What the node's launcher printed, stdout and stderr together."""
        return self.node(rank, host) / "launcher.log"

    def inside(self, path: Path) -> str:
        """What a file of the run is called in its folder, such as nodes/0000-n1/launcher.log."""
        return path.relative_to(self.path).as_posix()

    def logs(self) -> dict[int, Path]:
        """Node rank to log, for the nodes of run.json."""
        nodes = (self.run or {}).get("nodes", [])
        return {node["node_rank"]: self.log(node["node_rank"], node["host"]) for node in nodes}

    def done(self) -> dict[str, dict[str, Any]]:
        """Host to how its launcher ended, for the hosts that said so."""
        found = {}
        for node in (self.run or {}).get("nodes", []):
            ended = read_json(self.node(node["node_rank"], node["host"]) / "done.json")
            if ended is not None:
                found[node["host"]] = ended
        return found

    def ask_to_halt(self, cause: str, message: str) -> None:
        """End the run from the control node, unless something ended it before.

        Signal handlers and timers call this, also at the same time, so that nothing is raised: a
        run that cannot be told so, as where the disk is full, goes on until it ends otherwise.
        """
        content = {"schema": SCHEMA, "cause": cause, "host": None, "message": message}
        with contextlib.suppress(OSError):
            create_once(self.path / "halt", json.dumps({**content, "at": time.time()}))
