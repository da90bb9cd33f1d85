"""One run, as the threads of its nodes share it: who is ready, who has ended, why it ends."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import threading
import time
from typing import TYPE_CHECKING

from node.causes import Cause
from node.files import open_plain
from plugins.awake import awake_s
from plugins.launching.patience import Patience
from runner.folder import names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.folder.attempt import RunFolder
    from runner.terms.orders import NodeRun


class SharedRun:
    """A run that goes on while `holder` holds `lock` and Ansible `attended` it."""

    def __init__(
        self,
        run_folder: RunFolder,
        lock: Path,
        holder: str,
        attended: Callable[[], bool] = lambda: True,
    ) -> None:
        self.run_folder = run_folder
        self.lock = lock
        self.holder = holder  # what the bench that began this run wrote into its lock
        self.attended = attended
        orders = run_folder.orders
        assert orders is not None  # bench writes run.json before it orders the run
        self.orders = orders
        self.mark = mark_of(run_folder.path / names.RUN)
        self.absent = {node.node_rank for node in orders.nodes}
        self.waiting = set(self.absent)  # for go
        # Nodes that only wait for others end after those that do not.
        self.not_well = {node.node_rank for node in orders.nodes}
        self.launchers = {node.node_rank for node in orders.nodes if not node.waits}
        self._came = threading.Condition()
        self.patience = Patience(orders.limits.lost_contact_s, len(orders.nodes))
        self.heard = awake_s()  # when any node printed something last

    def come(self, node: NodeRun) -> None:
        """Say that a node is ready."""
        with self._came:
            self.absent.discard(node.node_rank)
            if not self.absent:
                self._came.notify_all()

    def all_came(self, patience_s: float) -> bool:
        """Wait so long for all nodes; return whether they are ready."""
        with self._came:
            return self._came.wait_for(lambda: not self.absent, patience_s)

    def gone(self, node: NodeRun, patience_s: float) -> None:
        """Say that a node was told to go, and wait so long until all were."""
        with self._came:
            self.waiting.discard(node.node_rank)
            if not self.waiting:
                self._came.notify_all()
            self._came.wait_for(lambda: not self.waiting, patience_s)

    def late(self) -> str:
        """Name the first nodes that are not ready."""
        return ", ".join(
            names.node(node.node_rank, node.host).rpartition("/")[2]
            for node in [
                absent_node
                for absent_node in self.orders.nodes
                if absent_node.node_rank in self.absent
            ][:4]
        )

    def ended(self, node: NodeRun) -> None:
        """Say that how a node ended is written down."""
        self.launchers.discard(node.node_rank)

    def all_well(self, node: NodeRun, patience_s: float) -> bool:
        """Say that a node ended well; return whether all did.

        Node rank 0 of a run with checkpoints waits for the others so long: it removes these.
        """
        self.not_well.discard(node.node_rank)
        waits = self.orders.chain is not None and node.node_rank == 0
        until = time.monotonic() + patience_s
        while waits and self.not_well and not self.run_folder.halt and time.monotonic() < until:
            time.sleep(0.05)
        return not self.not_well and self.run_folder.halt is None

    def over(self, node: NodeRun) -> bool:
        """Whether a node only waits for others, and they have ended."""
        return node.waits and not self.launchers

    def hear(self) -> None:
        """Say that a node printed something, or that it may print only from now on."""
        self.heard = awake_s()

    def halted(self) -> str:
        """Why the run is to end, or an empty string."""
        if not self.controlled():
            self.halt(Cause.CONTROL_LOST, "the process that ran bench is gone")
        elif not self.attended():
            self.halt(Cause.LAUNCH_ERROR, "Ansible's process on the control node was ended")
        halt = self.run_folder.halt
        return halt.cause if halt else ""

    def halt(self, cause: Cause, message: str, host: str | None = None) -> None:
        """Say first why the run ends; a later call changes nothing."""
        self.run_folder.ask_to_halt(cause, message, host)

    def controlled(self) -> bool:
        """Whether the bench that began this run lives: it holds its lock, and no later bench does.

        A lock that cannot be asked is taken for held.
        """
        try:
            with open_plain(self.lock) as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return handle.read() == self.holder.encode()
        except OSError:
            return True
        return False


def mark_of(planned: Path) -> str:
    """What marks the run's processes on every node: no other run.json gives the same.

    One mark for all nodes, since a launcher on one may start processes on the others; and plain
    letters, since such a launcher may pass it through a shell.
    """
    facts = f"{planned.resolve()} {planned.stat().st_mtime_ns} {platform.node()}"
    return hashlib.sha256(facts.encode()).hexdigest()[:32]
