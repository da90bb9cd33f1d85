"""Faults on purpose: when one is due on this node, and what it does to the run's processes.

The folder that all attempts share has a file for each that has been (`fired-0`), so that a fault
comes once, also where Slurm or torchrun starts the next attempt. After one that ends the attempt,
one that counts seconds waits for the next attempt: in this one it would hit what is ending. The
node whose log has the iteration says that a fault is `due-0`; the node that it is meant for looks
there. Each is announced first, in the node's log:

    [trainbench: fault 0 kill_rank node=1 rank=0 at=1700000000.123 iteration=25]

Only processes of the run are signalled (processes.ours).
"""

from __future__ import annotations

import os
import re
import signal
import time

from . import fault_kinds as kinds
from .files import part, size_of
from .names import FAULTS, LOG
from .processes import ours, send, stat_of

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

LOOK_S = 0.1  # between two looks
TURN_S = 0.1  # that a slow process runs, and stands
READ_BYTES = 1 << 20  # of new log at a look


class Faults:
    """The faults of a run's node, from its launcher's start."""

    def __init__(self, job: dict[str, Any], launcher: int | None) -> None:
        chain = job["chain"]
        self.launcher = launcher
        self.job, self.mine = job, chain["node"]
        self.folder = os.path.join(chain["folder"], FAULTS)
        self.faults: list[dict[str, Any]] = chain["faults"]
        self.pattern = re.compile(chain["iteration"].encode()) if chain["iteration"] else None
        self.begun = self.looked = time.monotonic()
        self.one_end: bool = chain.get("one_end", True)
        self.ending = False  # by a fault of this attempt
        # Numbers of those that have been.
        self.over = {
            at for at in range(len(self.faults)) if os.path.exists(self._path("fired", at))
        }
        self.reported: set[int] = set()  # that are due, as this node has said
        self.read = self.iteration = 0
        self.stopped: list[tuple[dict[int, int], float, int]] = []  # until; of which
        self.slowed: list[tuple[dict[int, int], float, int]] = []
        self.turned, self.standing = 0.0, False

    def look(self) -> None:
        """Cause what is due, and end what has lasted long enough."""
        now = time.monotonic()
        self._go_on(now)
        if now - self.looked < LOOK_S:
            return
        self.looked = now
        self._read_log()
        for number, fault in enumerate(self.faults):
            if self._has_been(number):
                continue
            if fault["iteration"]:
                if self._due_by_log(number, fault) and fault["node"] == self.mine:
                    self._fire(number)
                    return
                continue
            if self.ending:
                return
            if fault["node"] == self.mine and now - self.begun >= fault["after_s"]:
                self._fire(number)
            return  # one that counts seconds comes after all before it

    def _has_been(self, number: int) -> bool:
        if number not in self.over and os.path.exists(self._path("fired", number)):
            self._note(number)
        return number in self.over

    def _note(self, number: int) -> None:
        """Take note of a fault of this attempt, on whatever node."""
        fault = self.faults[number]
        self.over.add(number)
        stops = fault["kind"] == kinds.STOP and not fault["for_s"]
        self.ending = self.ending or (self.one_end and (stops or fault["kind"] in kinds.ENDING))

    def _path(self, word: str, number: int) -> str:
        return os.path.join(self.folder, "%s-%d" % (word, number))

    def _due_by_log(self, number: int, fault: dict[str, Any]) -> bool:
        """Whether an iteration has come, on whatever node its line stands; say so to the others."""
        if self.iteration >= fault["iteration"] and number not in self.reported:
            self.reported.add(number)
            _leave(self._path("due", number))
        return os.path.exists(self._path("due", number))

    def _read_log(self) -> None:
        """Take the last iteration of whole new lines."""
        if self.pattern is None or size_of(LOG) <= self.read:
            return
        data = part(LOG, self.read, READ_BYTES)
        end = data.rfind(b"\n") + 1
        self.read += end or (len(data) if len(data) == READ_BYTES else 0)
        for match in self.pattern.finditer(data[:end]):
            self.iteration = max(self.iteration, int(match.group(1)))

    def _fire(self, number: int) -> None:
        """Announce a fault and cause it."""
        if not _leave(self._path("fired", number)):
            return
        self._note(number)
        fault = self.faults[number]
        kind = fault["kind"]
        announce(number, fault, self.iteration)
        if kind == kinds.KILL_NODE:
            time.sleep(0.05)  # the line is in the log, whatever comes
            send(ours(self.job["mark"], os.getpid()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        process = rank_process(self.job, fault["rank"], self.launcher)
        until = time.monotonic() + fault["for_s"]
        if kind == kinds.KILL_RANK:
            send(process, signal.SIGKILL)
        elif kind == kinds.STOP:
            send(process, signal.SIGSTOP)
            if fault["for_s"]:
                self.stopped.append((process, until, number))
        else:
            self.slowed.append((process, until, number))
        if not process:
            write_line("fault %d failed: there is no process of rank %d" % (number, fault["rank"]))

    def _go_on(self, now: float) -> None:
        """End stops and slowness whose time is over; have slow processes run and stand by turns."""
        for group in (self.stopped, self.slowed):
            for entry in [entry for entry in group if now >= entry[1]]:
                send(entry[0], signal.SIGCONT)
                group.remove(entry)
                write_line("fault %d undone at=%.3f" % (entry[2], time.time()))
        if self.slowed and now - self.turned >= TURN_S:
            self.turned, self.standing = now, not self.standing
            for process, _, _ in self.slowed:
                send(process, signal.SIGSTOP if self.standing else signal.SIGCONT)


def announce(number: int, fault: dict[str, Any], iteration: int) -> None:
    """Write into the log what comes, where, and when by this node's clock."""
    facts = number, fault["kind"], fault["node"], fault["rank"], time.time(), iteration
    write_line("fault %d %s node=%d rank=%d at=%.3f iteration=%d" % facts)


def write_line(text: str) -> None:
    """Add a line to the trainer's log."""
    try:
        handle = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return
    try:
        os.write(handle, ("\n[trainbench: %s]\n" % text).encode())
    except OSError:
        pass
    finally:
        os.close(handle)


def rank_process(job: dict[str, Any], rank: int, launcher: int | None) -> dict[int, int]:
    """Return the process of a local rank, {pid: start time}: the first that has LOCAL_RANK.

    What it started itself has the variable, too. Of a launcher that sets none, local rank 0 is the
    launcher's own process.
    """
    alive = ours(job["mark"], os.getpid())
    word = ("LOCAL_RANK=%d" % rank).encode()
    ranks = {pid for pid in alive if _has(pid, word)}
    for pid in sorted(ranks, key=lambda entry: alive[entry]):
        entry = stat_of(pid)
        if entry and entry[0] not in ranks:
            return {pid: alive[pid]}
    ranked = any(_has(pid, b"LOCAL_RANK=", begins=True) for pid in alive)
    if rank == 0 and not ranked and launcher in alive:
        return {launcher: alive[launcher]}
    return {}


def _has(pid: int, word: bytes, begins: bool = False) -> bool:
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            environment = stream.read().split(b"\0")
    except OSError:
        return False
    return any(entry.startswith(word) for entry in environment) if begins else word in environment


def _leave(path: str) -> bool:
    """Make an empty file; False where it was there, or cannot be made."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    return True
