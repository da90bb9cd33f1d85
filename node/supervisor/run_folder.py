"""A run's folder: room for it, what older runs left, its removal."""

from __future__ import annotations

import os
import shutil

from node.causes import Cause

from . import chain
from .answers import RefusedError
from .files import read_json, stamp_of, write
from .names import DONE, FETCHED, JOB
from .processes import run_after
from .state import daemon_alive, on_this_node

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

KEPT_RUNS = 20  # folders of a campaign's fetched runs that stay here: those that did not end well


def make_room(folder: str) -> None:
    """Remove what an older run of the same name left, once that has ended; refuse a live one."""
    if not os.path.exists(folder):
        return
    if not os.path.exists(os.path.join(folder, JOB)):
        raise RefusedError(
            Cause.EXISTS, "%s exists and is not the folder of a run; move it away" % folder
        )
    old = read_json(os.path.join(folder, JOB)) or {}
    if not on_this_node(old):
        raise shared_root(folder, old["hostname"])
    here = os.getcwd()
    os.chdir(folder)
    over = os.path.exists(DONE) or not daemon_alive()
    os.chdir(here)
    if not over:
        message = (
            "a run of the same name goes on in %s; wait for it, or end it with `trainbench stop`"
        )
        raise RefusedError(Cause.NODE_BUSY, message % folder)
    if old:
        run_after(old)
    shutil.rmtree(folder)


def shared_root(folder: str, other: str) -> RefusedError:
    """What is wrong where two nodes have one folder for their parts of a run."""
    return RefusedError(
        Cause.SHARED_ROOT,
        "%s is also a folder of %s; nodes that share cluster_root need cluster_root_shared: true in"
        " the inventory" % (folder, other),
    )


def prune(job: dict[str, Any]) -> None:
    """Remove the oldest of this campaign's folders that were fetched, except the newest KEPT_RUNS.

    A folder that nobody fetched stays, and so does one of another user. Nodes that share a root
    have folders of their own (runner/terms/cluster.py), and each looks into its own.
    """
    found = []
    above = job["dir"][: -len(job["run_id"])]
    for folder, inside, names in os.walk(os.path.join(above, job["run_id"].split("/")[0])):
        if JOB in names:
            inside[:] = []
            fetched = FETCHED in names and DONE in names
            if fetched and os.stat(folder).st_uid == os.geteuid():
                found.append((stamp_of(os.path.join(folder, DONE)) or 0, folder))
    for _, folder in sorted(found, reverse=True)[KEPT_RUNS:]:
        shutil.rmtree(folder, ignore_errors=True)


def limit_log(job: dict[str, Any]) -> None:
    """A log may take half of what is free, so that a flood fills nobody's disk."""
    disk = os.statvfs(job["runs"])
    half = disk.f_bavail * disk.f_frsize // 2
    job["log_limit_bytes"] = min(job["log_limit_bytes"], half)


def close(spec: dict[str, Any]) -> dict[str, Any]:
    """Everything was fetched: remove the folder of a run that is over, or keep it for a look.

    `spec`: folder, keep; all_well (every node of the run has ended well, so that its checkpoints
    serve nobody any longer).
    """
    folder: str = spec["folder"]
    os.chdir(folder)
    job = read_json(JOB) or {}
    if spec.get("all_well"):
        chain.remove(job)
    runs = job.get("runs")
    if spec["keep"] or not runs or not os.path.exists(DONE):
        write(FETCHED, "")
        return {"removed": False}
    os.chdir(runs)
    shutil.rmtree(folder, ignore_errors=True)
    above = os.path.dirname(folder)
    try:
        while above.startswith(runs + os.sep):
            os.rmdir(above)  # of the cell and the campaign, where nothing else is in them
            above = os.path.dirname(above)
    except OSError:
        pass
    return {"removed": not os.path.exists(folder)}
