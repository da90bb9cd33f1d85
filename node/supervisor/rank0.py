"""What node rank 0 of a run on a shared folder does for all: it gathers, picks the port, waits.

Each node writes one file, and this one alone reads all of them: what is done grows with the number
of nodes, and no faster.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from node import visibility

from .files import read_json, size_of, write
from .names import ENDED, HALT, LOG, MEETING, PLACEMENT, ROSTER, RUN, node
from .orders import leave
from .placeholders import PORTS
from .ports import taken

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Callable

PORT_TRIES = 200
LOOKS = 20  # for a stall, in the time that is one
OVER = ".over"  # ends the name of the file of a node that has ended
PATIENCE_S = 30.0  # for the others to end, once the run is to end everywhere


class Stalls:
    """Whether no node of a run has printed anything for so long."""

    def __init__(self, folders: list[str], limit_s: float) -> None:
        self.logs = [os.path.join(folder, LOG) for folder in folders]
        self.limit_s = limit_s
        self.sizes: list[int] = []
        self.grown = self.looked = float("inf")

    def begin(self, now: float) -> None:
        """Count from now: the time before is not the trainer's silence."""
        self.grown = self.looked = now

    def stalled(self, now: float) -> bool:
        """Look at the logs now and then; return whether they rested for the limit."""
        if now - self.looked < self.limit_s / LOOKS:
            return False
        self.looked = now
        sizes = [size_of(log) for log in self.logs]
        if sizes != self.sizes:
            self.sizes, self.grown = sizes, now
        return now - self.grown > self.limit_s


def folders(run: str) -> list[str]:
    """Return the folders of all nodes in a run's, by rank."""
    nodes = read_json(os.path.join(run, RUN))["nodes"]
    return [os.path.join(run, node(entry["node_rank"], entry["host"])) for entry in nodes]


class Roster:
    """Who has come, and who has ended, in one folder: one look at it tells of all nodes."""

    def __init__(self, run: str, nodes: int) -> None:
        self.folder = os.path.join(run, ROSTER)
        self.ranks = ["%04d" % rank for rank in range(nodes)]
        os.makedirs(self.folder, mode=0o700, exist_ok=True)

    def come(self, rank: int, facts: dict[str, Any]) -> None:
        """Say that a node is ready, and what the others are to know of it."""
        write(os.path.join(self.folder, self.ranks[rank]), json.dumps(facts))

    def ended(self, rank: int) -> None:
        """Say that a node has written how it ended: the file by which it came is called so now."""
        path = os.path.join(self.folder, self.ranks[rank])
        try:
            os.rename(path, path + OVER)
        except OSError:  # it never came
            with contextlib.suppress(OSError):  # it is late: all of it was put away
                write(path + OVER, "")

    def absent(self, suffix: str = "") -> list[str]:
        """Return the ranks that have not come; with OVER those that have not ended."""
        visibility.refresh(self.folder)
        there = set(os.listdir(self.folder))
        return [rank for rank in self.ranks if rank + suffix not in there]

    def facts(self) -> list[dict[str, Any] | None]:
        """Return what the nodes said of themselves, by rank; None of one that has ended."""
        return [read_json(os.path.join(self.folder, rank)) for rank in self.ranks]


def place(run: str, roster: Roster, wanted: list[int]) -> None:
    """Write placement.json once every node has come, then what all of them wait for."""
    if roster.absent():
        return
    nodes = [node for node in roster.facts() if node is not None]
    if len(nodes) < len(roster.ranks):
        return  # one has ended since
    placement = {
        "schema": 1,
        "job_id": os.environ.get("SLURM_JOB_ID", ""),
        "step_id": os.environ.get("SLURM_STEP_ID", ""),
        "restart": int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        "port": free_port(wanted[0] if wanted else PORTS[0]),
        "at": time.time(),
        **{key: [node[key] for node in nodes] for key in ("host", "address", "devices", "cpus")},
        "switch": [node.get("switch", "") for node in nodes],
    }
    write(os.path.join(run, PLACEMENT), json.dumps(placement))
    meeting = {"port": placement["port"], "address": [nodes[0]["address"]]}
    write(os.path.join(run, MEETING), json.dumps(meeting))


def free_port(wanted: int) -> int:
    """Return the wanted port, or the next that nobody on this node has."""
    for step in range(PORT_TRIES):
        port = PORTS[(wanted - PORTS[0] + step) % len(PORTS)]
        if not taken(port):
            return port
    return wanted


def finish(run: str, roster: Roster, terminated: Callable[[], bool]) -> None:
    """Wait until every node has said how it ended, no longer than they take, and say so."""
    ending: float | None = None
    pause_s = 0.005
    while roster.absent(OVER):
        if ending is None and (terminated() or os.path.exists(os.path.join(run, HALT))):
            ending = time.monotonic()
        if ending is not None and time.monotonic() - ending > PATIENCE_S:
            break
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, 1.0)
    write(os.path.join(run, ENDED), json.dumps({"schema": 1, "at": time.time()}))


def requeue(first: str, folder: str) -> None:
    """Make the folder of a run that Slurm starts again: the same orders, another attempt."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(first, RUN), encoding="utf-8") as stream:
        orders: dict[str, Any] = json.load(stream)
    was, now = (
        orders["run_id"],
        orders["run_id"].rpartition("a")[0] + "a" + folder.rpartition("attempt")[2],
    )
    orders["attempt"] = int(folder.rpartition("attempt")[2])
    text = json.dumps(orders, indent=1)
    for old, new in ((first, folder), (was, now)):
        text = text.replace(json.dumps(old)[1:-1], json.dumps(new)[1:-1])
    write(os.path.join(folder, RUN), text)
    leave(folder)
