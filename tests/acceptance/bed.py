"""Real nodes for one acceptance, and the acceptance: brought up, planted, accepted, taken down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processors import Processors
from tests.cluster import Cluster
from tests.cluster.node import Node
from tests.conftest import ROOT

NODES = 4
SHARE = 0.45  # of a processor for each node: four of them leave room on two processors
MOST_S = 900.0
RUNTIME = ROOT / ".trainbench"
VARIABLES: dict[str, Any] = {
    "cluster_root": str(RUNTIME),
    "cluster_devices_per_node": 1,
    "cluster_systems": ["torch_gpt"],
    "setup_privileged": False,
    # Of two threads one would spin away the share while it waits for the other.
    "cluster_env": {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
}


@dataclass
class Bed:
    """Four nodes, an inventory of them, and a folder for runs. `undo` is called at the end."""

    cluster: Cluster
    folder: Path
    undo: ExitStack
    processors: dict[int, Processors] = field(default_factory=dict)

    @property
    def inventory(self) -> Path:
        """The inventory's folder."""
        return self.folder / "nodes"

    @property
    def runs(self) -> Path:
        """Where accept leaves what it found."""
        return self.folder / "runs"

    def node(self, number: int) -> Node:
        """Return node1, node2, ..."""
        return self.cluster.nodes[number - 1]

    def share(self, number: int, share: float) -> None:
        """Let a node have so much of one processor."""
        self.processors.setdefault(number, Processors(self.node(number))).limit(share)

    def host_variable(self, number: int, key: str, value: str) -> None:
        """Give one host a variable of its own."""
        folder = self.inventory / "host_vars"
        folder.mkdir(exist_ok=True)
        (folder / f"node{number}.yml").write_text(f"{key}: {value}\n")

    def probing(self, number: int) -> list[int]:
        """Return the processes that measure on a node, as it numbers them."""
        found = self.node(number).processes() if self.node(number).pid else []
        return [pid for pid, argv in found if any("probe.py" in word for word in argv)]


@contextmanager
def bed(*, share: float | None = SHARE, disk_mib: int | None = None) -> Iterator[Bed]:
    """Bring up nodes for one acceptance; `share` is what each has of a processor, None all of it.

    `disk_mib` keeps each node's disk in memory, with that size.
    """
    if not (RUNTIME / "datasets").is_dir():
        pytest.fail("this machine is not set up: run `make setup` first", pytrace=False)
    with (
        tempfile.TemporaryDirectory(prefix="acceptance-", dir="/var/tmp") as name,
        ExitStack() as groups,
        Cluster(NODES, upper_size_mib=disk_mib) as cluster,
        ExitStack() as undo,
    ):
        made = Bed(cluster, Path(name), undo)
        cluster.write_inventory(made.inventory, variables=VARIABLES)
        for number in range(1, NODES + 1) if share else ():
            made.share(number, share or 0.0)
            groups.callback(made.processors[number].remove)
        yield made


@dataclass(frozen=True)
class Accepted:
    """How an acceptance ended: exit code, its answer's detail ({} without), its words, seconds."""

    code: int
    detail: dict[str, Any]
    words: str
    took_s: float


class Accepting:
    """One `trainbench accept` that goes on."""

    def __init__(self, made: Bed, stages: Sequence[str], *more: str) -> None:
        self.bed = made
        self._began = time.monotonic()
        self._out, self._err = made.folder / "out", made.folder / "err"
        chosen = [word for stage in stages for word in ("--stage", stage)]
        argv = [
            *(sys.executable, "-m", "runner", "accept", "-i", str(made.inventory)),
            *("--runs", str(made.runs), "--quick", "--format", "json"),
            *(*chosen, *more),
        ]
        with self._out.open("w") as out, self._err.open("a") as err:
            self.process = subprocess.Popen(argv, stdout=out, stderr=err, start_new_session=True)
        made.undo.callback(self.kill)

    @property
    def words(self) -> str:
        """What it told so far."""
        return self._err.read_text(errors="replace")

    def until_step(self, words: str) -> None:
        """Wait until the probe on the first node says so, or accept has ended."""
        while self.process.poll() is None:
            logs = self.bed.runs.rglob("launcher.log")
            if any(words in log.read_text(errors="replace") for log in logs):
                return
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it, as a power cut does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end(self) -> Accepted:
        """Wait for its end."""
        try:
            code = self.process.wait(MOST_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self.process.wait()
        took_s = time.monotonic() - self._began
        text = self._out.read_text()
        return Accepted(code, json.loads(text)["detail"] if text else {}, self.words, took_s)
