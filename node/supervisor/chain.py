"""Manage the folder of a repeat's checkpoints, shared by its attempts and its nodes."""

from __future__ import annotations

import os
import shutil
import time

from node import visibility

from .files import write
from .names import FAULTS

TYPE_CHECKING = False  # as typing's, whose import would cost each poll
if TYPE_CHECKING:
    from typing import Any

SHOWS_S = 10.0  # wait this long for a file to appear on a file system that caches


def begin(job: dict[str, Any]) -> None:
    """Make the folder, on node rank 0; for a first attempt it is empty.

    Checkpoints of earlier chains of the same repeat are removed: they are never loaded again.
    """
    chain = job.get("chain")
    if not chain or chain["node"] != 0:
        return
    folder: str = chain["folder"]
    above, name_here = os.path.split(folder)
    if is_first(job):
        repeat = name_here.partition("-")[0] + "-"
        for name in os.listdir(above) if os.path.isdir(above) else []:
            if name.startswith(repeat):
                shutil.rmtree(os.path.join(above, name), ignore_errors=True)
    os.makedirs(os.path.join(folder, FAULTS), mode=0o700, exist_ok=True)
    write(_begun(job), "")


def not_shared(job: dict[str, Any]) -> str | None:
    """Return an error if this node does not see the folder that node rank 0 made; else None."""
    chain = job.get("chain")
    until = time.monotonic() + SHOWS_S
    while chain and not visibility.fresh(_begun(job)):
        if time.monotonic() > until:
            return (
                "this node does not see the folder of checkpoints that node rank 0 made (%s); set"
                " cluster_checkpoints to a folder that all nodes share" % chain["folder"]
            )
        time.sleep(0.1)
    return None


def _begun(job: dict[str, Any]) -> str:
    """Return the file that node rank 0 writes once an attempt's folder is ready."""
    attempt = job["run_id"].rpartition("/")[2]
    return os.path.join(job["chain"]["folder"], FAULTS, "begun-%s" % attempt)


def is_first(job: dict[str, Any]) -> bool:
    """Whether this attempt is the first of its chain: attempt r2a3 starts chain r2-3."""
    name_here = os.path.basename(job["chain"]["folder"])
    return bool(job["run_id"].rpartition("/")[2] == name_here.replace("-", "a"))


def remove(job: dict[str, Any]) -> None:
    """Remove the folder, on node rank 0, once all nodes have ended well: no attempt follows."""
    chain = job.get("chain")
    if chain and chain["node"] == 0:
        shutil.rmtree(chain["folder"], ignore_errors=True)
        above = os.path.dirname(chain["folder"])
        try:
            for _ in range(2):  # the folders of the cell and the campaign, if they are empty
                os.rmdir(above)
                above = os.path.dirname(above)
        except OSError:
            pass
