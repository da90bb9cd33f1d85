"""One run's folder: what was planned, what came back of each node, how it ended."""

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node.causes import Cause
from runner.base.exclusive import create_once
from runner.folder import names
from runner.folder.endings import Ending
from runner.folder.stored import SCHEMA, read_json
from runner.terms.outcome import Outcome


@dataclass(frozen=True)
class Halt:
    """What ended a run first; `host` is None where the control node did."""

    cause: str
    host: str | None
    message: str


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, where bench and the launch plugins of its nodes meet."""

    path: Path

    @property
    def run(self) -> dict[str, Any] | None:
        """run.json: what was asked for. Written once, before the launch; kept once read."""
        content: dict[str, Any] | None = self.__dict__.get("_run")
        if content is None and (content := read_json(self.path / names.RUN)) is not None:
            self.__dict__["_run"] = content
        return content

    @property
    def hosts(self) -> dict[int, str]:
        """Node rank to host, for the nodes of run.json."""
        nodes = (self.run or {}).get("nodes", [])
        return {int(node["node_rank"]): str(node["host"]) for node in nodes}

    def node(self, rank: int, host: str) -> Path:
        """Return the folder of what came back of one node."""
        return self.path / names.node(rank, host)

    def log(self, rank: int, host: str) -> Path:
        """Return what the node's launcher printed, stdout and stderr together."""
        return self.node(rank, host) / names.LOG

    def logs(self) -> dict[int, Path]:
        """Map node ranks to logs, for the nodes of run.json."""
        return {rank: self.log(rank, host) for rank, host in self.hosts.items()}

    def endings(self) -> dict[str, Ending]:
        """Map hosts to how their launchers ended, for the hosts that said so."""
        endings = {}
        for rank, host in self.hosts.items():
            done = read_json(self.node(rank, host) / names.DONE)
            if done is not None:
                endings[host] = Ending.from_json(done)
        return endings

    @property
    def halt(self) -> Halt | None:
        """halt: what ended the run first; None where every node ended by itself."""
        content = read_json(self.path / names.HALT)
        if content is None:
            return None
        return Halt(str(content["cause"]), content.get("host"), str(content["message"]))

    def ask_to_halt(self, cause: Cause, message: str, host: str | None = None) -> None:
        """Say why the run ends everywhere, unless something ended it before.

        Signal handlers and timers call this, also at the same time, so that nothing is raised: a
        run that cannot be told so, as where the disk is full, goes on until it ends otherwise.
        """
        content = {"schema": SCHEMA, "cause": cause, "host": host, "message": message}
        with contextlib.suppress(OSError):
            create_once(self.path / names.HALT, json.dumps({**content, "at": time.time()}))


@dataclass(frozen=True)
class Attempt(RunFolder):
    """The folder of one attempt of a cell's repeat."""

    cell_id: str
    repeat: int
    number: int

    @property
    def outcome(self) -> Outcome | None:
        """outcome.json: how it ended; None while it runs, or where bench died."""
        content = read_json(self.path / names.OUTCOME)
        return None if content is None else Outcome.from_json(content)

    @property
    def planned_at(self) -> float:
        """When run.json was written, just before the launch (epoch seconds)."""
        path = self.path / names.RUN
        return (path if path.exists() else self.path).stat().st_mtime

    def inside(self, path: Path) -> str:
        """Return what a file of the run is called in its folder: nodes/0000-n1/launcher.log."""
        return path.relative_to(self.path).as_posix()
