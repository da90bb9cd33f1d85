"""Whether a run goes on: its daemon's identity, its stop file, its end."""

from __future__ import annotations

import json
import os
import time

from node.files import read_text

from .files import read_json, stamp_of, write
from .names import DONE, LEASE, RESERVE, SAMPLER_TROUBLE, STATE, STOP, TROUBLE
from .processes import stat_of

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

NO_TROUBLE = "TRAINBENCH null\n"  # what a sampler prints that ended well
TERMINATED: list[bool] = []  # not empty once the daemon was sent TERM


def boot_id() -> str:
    """The kernel's id of this boot: a pid means nothing across a reboot."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def host_name() -> str:
    """What this node calls itself. Not socket's, whose import would cost each poll."""
    return os.uname().nodename


def on_this_node(job: dict[str, Any]) -> bool:
    """Whether a run is this node's, and not another's that shares the folder of all runs."""
    return bool(job.get("hostname", host_name()) == host_name())


def place_of_pids() -> str:
    """Say what the pids seen here are those of: this boot, this namespace."""
    try:
        return "%s/%d" % (boot_id(), os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return boot_id()


def identity() -> str:
    """Name this process so that no other is mistaken for it."""
    entry = stat_of(os.getpid())
    return "%s/%d:%d" % (place_of_pids(), os.getpid(), entry[1] if entry else 0)


def daemon_alive() -> bool:
    """Whether the daemon of this folder still runs (same pid and same start time)."""
    state = read_json(STATE)
    if not state:
        return True  # it has not written it yet
    if state["boot_id"] != boot_id():
        return False  # the node booted since
    entry = stat_of(state["pid"])
    return bool(entry and entry[1] == state["start"] and entry[2] != "Z")


def stop_reason() -> str | None:
    """What the stop file says, or that the daemon was sent TERM, or None."""
    if TERMINATED:
        return "the supervisor was sent TERM"
    try:
        with open(STOP, encoding="utf-8") as stream:
            return stream.read().strip() or "stop"
    except OSError:
        return None


def lease_over(seen: dict[str, Any], now: float, lost_s: float, path: str = LEASE) -> float:
    """Return how long a lease held that nobody renewed in time; 0 while it holds.

    It holds for the seconds given in the file, or `lost_s`. The value of its mtime is never
    compared with a clock; `seen` keeps what was seen of it.
    """
    stamp = stamp_of(path)
    if not seen or stamp != seen["stamp"]:
        seen.update(stamp=stamp, since=now, holds_s=lease_s(path) or lost_s)
    over = now - float(seen["since"]) > seen["holds_s"]
    return float(seen["holds_s"]) if over else 0.0


def lease_s(path: str = LEASE) -> float:
    """Return how many seconds a lease says that it holds; 0 where it does not say."""
    try:
        return float(read_text(path) or 0)
    except ValueError:
        return 0.0


def renew(holds_s: float, path: str = LEASE) -> None:
    """Say that the control node is there, and for how long the run goes on without it."""
    if lease_s(path) != float("%g" % holds_s):
        try:
            write(path, "%g" % holds_s)
        except OSError:
            pass  # a full disk ends no lease
    os.utime(path, ns=(time.time_ns(), time.time_ns()))


def finish(done: dict[str, Any]) -> None:
    """Write done.json, with the space that prepare set aside for it."""
    try:
        os.unlink(RESERVE)
    except OSError:
        pass
    write(DONE, json.dumps(done))
    for trouble in (TROUBLE, SAMPLER_TROUBLE):
        if read_text(trouble) in ("", NO_TROUBLE):
            try:
                os.unlink(trouble)  # one file less of each node on a shared file system
            except OSError:
                pass
