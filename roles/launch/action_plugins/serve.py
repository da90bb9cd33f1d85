"""Carry out bench's orders, one after another, until it closes the gate: a task of a whole play.

Ansible runs this once for all hosts, in one process, where each host has a thread with a task,
templates and a connection of Ansible's (plugins/launching/host_threads.py). A thread takes its
node's part of run.json here on the control node, so that what runs never passes through a template
or a shell (plugins/launching/node_launch.py). docs/architecture.md has the protocol.

Whatever happens on a node comes back as data, never as failed or unreachable: one bad node must
not end the play.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from plugins.launching.action import LaunchAction
from plugins.launching.describing import describe
from plugins.launching.host_threads import HostThread, HostThreads
from plugins.launching.node_launch import carry_out
from plugins.launching.shared_run import SharedRun
from runner.folder.attempt import RunFolder
from runner.launch.ssh.play_pipe import Order, orders

if TYPE_CHECKING:
    from collections.abc import Callable


class ActionModule(LaunchAction):
    """`serve:` with `gate`, the folder of the pipes that orders come through."""

    BYPASS_HOST_LOOP = True

    def act(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        thread = threading.current_thread()
        if isinstance(thread, HostThread):  # Ansible's task on one host
            return thread.serve(self)
        pool, ansible = HostThreads(self), os.getppid()
        for order in orders(Path(arguments["gate"])):
            follow(order, pool, lambda: os.getppid() == ansible)
        return {"changed": True}


def follow(order: Order, pool: HostThreads, attended: Callable[[], bool]) -> None:
    """Carry out an order on its hosts."""
    folder = Path(order.folder)
    if order.sought is not None:
        describe(pool, order.hosts, order.sought, folder)
    else:
        carry_out(pool, SharedRun(RunFolder(folder), Path(order.lock), order.holder, attended))
