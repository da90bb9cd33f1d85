"""What a poll brings: the end, the newest log, samples; and what else can be fetched."""

from __future__ import annotations

import os
import stat
import time

from .answers import pack
from .files import part, read_json, size_of, stamp_of, write
from .names import (
    ARRIVALS,
    ASKED,
    BROUGHT,
    DONE,
    EVENTS,
    GO,
    JOB,
    LOG,
    OVER,
    SAMPLES,
    TRACES,
    is_trace,
)
from .state import daemon_alive, renew
from .stopping import ask_to_stop, end_stuck, lost_supervisor, wake

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

OVERDUE_S = 30.0  # beyond the time that a run's processes have to end
# Besides BROUGHT the control node may bring:
EVENTS_BYTES = 64 * 1024 * 1024  # of event files that are brought, and
EVENTS_MOST = 64  # how many
TRACES_BYTES = 512 * 1024 * 1024  # of profiler traces that are brought, and
TRACES_MOST = 64  # how many
TAIL_BYTES = 64 * 1024  # of new log that one poll brings
FETCH_BYTES = 8 * 1024 * 1024  # of log that one fetch brings, before compression


def overdue() -> bool:
    """Return whether the run was told to end so long ago that its supervisor will not do it."""
    since_ns = stamp_of(ASKED)
    if since_ns is None:
        write(ASKED, "")
        return False
    grace_s = float((read_json(JOB) or {}).get("grace_s", 0.0))
    return time.time() - since_ns / 1e9 > 3 * grace_s + OVERDUE_S


def poll(spec: dict[str, Any]) -> dict[str, Any]:
    """Renew the lease, wait up to `wait_s` for the end, and bring what is new.

    The lease is renewed before the wait alone: a bench that waits for this node must not take the
    last poll of one that is gone for a living one. With `stop` it is not renewed, for the same
    reason.

    Answers {done, size, offset, data, samples, arrivals, files}: `data` is zlib + base64 of the log
    from `offset`, 64 KiB at most; where more is new, `offset` jumps ahead (fetch brings the rest).
    `samples` are those from byte `sampled` on, `arrivals` from `arrived` on. `files`, once the run
    is over: name to size of what else can be fetched.

    `spec`: folder, offset, wait_s, sampled, arrived; lease_s (how long the run goes on without
    another poll); go (start); stop (why the run is to end, or empty); over (the nodes that started
    something have ended).
    """
    os.chdir(spec["folder"])
    stop: str = spec["stop"]
    if stop:
        ask_to_stop(stop)
    else:
        renew(spec["lease_s"])
    if spec["go"]:
        write(GO, "")
    if spec["over"]:
        write(OVER, "")
    until = time.monotonic() + spec["wait_s"]
    done = read_json(DONE)
    while done is None and time.monotonic() < until:
        time.sleep(0.01)
        done = read_json(DONE)
    wake()
    if stop and overdue():
        end_stuck()
        done = read_json(DONE)
    alive = daemon_alive()
    if done is None and not alive:
        done = read_json(DONE) or lost_supervisor()
    try:
        size = os.stat(LOG).st_size
        start = max(spec["offset"], size - TAIL_BYTES)
        with open(LOG, "rb") as stream:
            stream.seek(start)
            data = stream.read(TAIL_BYTES)
    except OSError:
        size, start, data = 0, 0, b""
    facts = {"size": size, "offset": start, "data": pack(data)}
    facts["samples"] = pack(part(SAMPLES, spec["sampled"], TAIL_BYTES))
    facts["arrivals"] = pack(part(ARRIVALS, spec["arrived"], TAIL_BYTES))
    return {"done": done, "files": {} if done is None else others(), **facts}


def others() -> dict[str, int]:
    """Name to size of what the run left beside its log: samples, stacks, TensorBoard's files,
    profiler traces.

    Only plain files of the run's own folder, no link and nothing beyond one; event files up to
    EVENTS_BYTES and EVENTS_MOST in all, traces up to TRACES_BYTES and TRACES_MOST.
    """
    sizes = {name: size_of(name) for name in BROUGHT if name != LOG and size_of(name)}
    events = (path for path in _inside(EVENTS) if "tfevents" in os.path.basename(path))
    sizes.update(_fitting(events, EVENTS_BYTES, EVENTS_MOST))
    traces = (path for path in (*sorted(os.listdir(".")), *_inside(TRACES)) if is_trace(path))
    sizes.update(_fitting(traces, TRACES_BYTES, TRACES_MOST))
    return sizes


def _inside(top: str) -> Iterator[str]:
    """Paths of files in a folder, in order; none of one that is a link."""
    for folder, inside, names in () if os.path.islink(top) else os.walk(top):
        inside.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)


def _fitting(paths: Iterable[str], left: int, most: int) -> dict[str, int]:
    """Plain files to their sizes: as many as fit."""
    sizes: dict[str, int] = {}
    for path in paths:
        entry = os.lstat(path)
        if stat.S_ISREG(entry.st_mode) and entry.st_size <= left and len(sizes) < most:
            sizes[path] = entry.st_size
            left -= entry.st_size
    return sizes


def fetch(spec: dict[str, Any]) -> dict[str, Any]:
    """Bring bytes of a file of the run's folder: `spec` has folder, name, offset and length."""
    os.chdir(spec["folder"])
    name, offset = spec["name"], spec["offset"]
    data = b""
    if name in BROUGHT or name in others():
        data = part(name, offset, min(spec["length"], FETCH_BYTES))
    return {"offset": offset, "data": pack(data)}
