"""End the processes that an earlier run left on this node, where its supervisor is dead."""

from __future__ import annotations

import os
import re
import signal

from .process_scan import Around, read_bytes, uid_of
from .processes import SUPERVISOR, await_end, send, stat_of
from .state import place_of_pids

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

NAMED = re.compile((r"(?:^|\0)%s=([a-z0-9:/-]+)" % SUPERVISOR).encode())
KILLED_S = 5.0  # patience with processes that were sent KILL


def end_orphans(job: dict[str, Any], around: Around) -> list[str]:
    """End what an older run of this user's left here, whose supervisor is dead; say so."""
    pids = left = orphans(around.pids)
    if not pids:
        return []
    processes = [process for process in map(around.process, pids) if process is not None]
    oldest = max(processes, key=lambda process: process.age_s, default=None)
    oldest_name = ": %s" % around.who(oldest) if oldest else ""
    for number, patience in ((signal.SIGTERM, job["grace_s"]), (signal.SIGKILL, KILLED_S)):
        send(left, number)
        await_end(left, {}, patience)
        left = orphans(Around().pids)
        if not left:
            break
    message = "an earlier run or attempt left processes here, %d without their supervisor%s; %s"
    return [
        message
        % (
            len(pids),
            oldest_name,
            "they do not end: restart the node" if left else "they were ended",
        )
    ]


def orphans(pids: set[int]) -> dict[int, int]:
    """Return this user's processes that belong to a run whose supervisor is dead, pid to start.

    A process has its supervisor in its environment, as a process of this boot and these pids;
    whether any other is alive is unknown.
    """
    here = place_of_pids()
    found = {}
    for pid in pids:
        if uid_of(pid) != os.geteuid():
            continue
        environ = read_bytes("/proc/%d/environ" % pid)
        # Most have none, and a search for a plain word is ten times as fast.
        match = NAMED.search(environ) if SUPERVISOR.encode() in environ else None
        boot_and_pid, _, supervisor = (match[1] if match else b"").decode().rpartition("/")
        if boot_and_pid != here or lives(supervisor):
            continue
        entry = stat_of(pid)
        if entry and entry[2] not in "ZX":
            found[pid] = entry[1]
    return found


def lives(identity: str) -> bool:
    """Whether the process `PID:START` is there; true for a text of another form."""
    pid, _, start = identity.partition(":")
    if not (pid.isdigit() and start.isdigit()):
        return True
    entry = stat_of(int(pid))
    return bool(entry and entry[1] == int(start) and entry[2] not in "ZX")
