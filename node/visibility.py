"""Whether nodes see one folder: what each writes there, the others read.

A network file system may show a file late: a node of NFS remembers for up to a minute that a file
is not there. An open() asks the server about a file that is known; a change of the folder by this
node makes it forget what it knew of the folder. So `fresh` does both, and a wait for a file
on a shared folder uses it. All times are by the file system's own clock, of files' mtimes: the
clocks of two nodes are never compared.
"""

from __future__ import annotations

import contextlib
import os
import time

from node.causes import Cause
from node.files import read_text, write_text

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Iterable

MARK = ".seen-"  # begins the name of a token
FORGET_S = 2.0  # between two changes of a folder: each costs the file server some work
CHANGES_A_SECOND = 100  # that all nodes of a run together may make
_CHANGED: dict[str, float] = {}  # folder to when this process changed it last (monotonic)


def not_shared(host: str, folder: str) -> tuple[Cause, str]:
    """What is wrong where a node does not see a folder that all nodes must share."""
    return Cause.NOT_SHARED, (
        "%s does not see %s; --runs and cluster_root must be on a file system that login and"
        " compute nodes share" % (host, folder)
    )


def fresh(path: str, nodes: int = 1, forget_s: float = FORGET_S) -> bool:
    """Whether a file is there by now, and not by what this node remembers; asked by many `nodes`.

    A folder is changed at most once in `forget_s` seconds, the seldomer the more nodes do so, and
    for the first time as long after it was first asked about: most files show at once.
    """
    return _opens(path) or (refresh(os.path.dirname(path) or ".", nodes, forget_s) and _opens(path))


def refresh(folder: str, nodes: int = 1, forget_s: float = FORGET_S) -> bool:
    """Make this node forget what it knew of a folder, now and then; whether it did so now."""
    now = time.monotonic()
    if now - _CHANGED.setdefault(folder, now) < max(forget_s, nodes / CHANGES_A_SECOND):
        return False
    _CHANGED[folder] = now
    clock(folder)
    return True


def clock(folder: str) -> float | None:
    """What time it is by the file system of a folder; None where nothing can be written there."""
    path = os.path.join(folder, ".look-%s" % os.urandom(8).hex())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, b"\n")  # closed, so the server has its time
        finally:
            os.close(handle)
        modified_at = os.stat(path).st_mtime
        os.unlink(path)
    except OSError:
        return None
    return modified_at


def delay_s(path: str) -> float | None:
    """Seconds since a file was written: how late it shows, when first seen."""
    try:
        written = os.stat(path).st_mtime
    except OSError:
        return None
    now = clock(os.path.dirname(path) or ".")
    return None if now is None else max(0.0, round(now - written, 3))


def write_token(folder: str, name: str, text: str) -> None:
    """Leave a token that the others look for."""
    write_text(os.path.join(folder, MARK + name), text, mode=0o600)


def seen_within(
    folder: str, names: Iterable[str], text: str, patience_s: float
) -> dict[str, float]:
    """Whose tokens show within `patience_s`: name to how many seconds after it was written."""
    missing, delays = list(names), {}
    until = time.monotonic() + patience_s
    while True:
        for name in list(missing):
            path = os.path.join(folder, MARK + name)
            if fresh(path) and read_text(path) == text:
                delays[name] = delay_s(path) or 0.0
                missing.remove(name)
        if not missing or time.monotonic() >= until:
            return delays
        time.sleep(0.1)


# --- programs: what setup asks of each node ------------------------------------------------------


def leave(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave this node's token. `spec`: folder, name, text."""
    write_token(existing(spec["folder"]), spec["name"], spec["text"])
    return {"left": True}


def look(spec: dict[str, Any]) -> dict[str, Any]:
    """Say whose tokens this node sees. `spec`: folder, names, text, patience_s."""
    folder = existing(spec["folder"])
    return {"seen": seen_within(folder, spec["names"], spec["text"], float(spec["patience_s"]))}


def forget(spec: dict[str, Any]) -> dict[str, Any]:
    """Take this node's token away. `spec`: folder, name."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(existing(spec["folder"]), MARK + spec["name"]))
    return {"left": False}


def existing(folder: str) -> str:
    """Return the folder, or the nearest above it that is there."""
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    return folder


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True
