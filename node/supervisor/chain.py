"""The folder of a repeat's checkpoints, which all its attempts share, and its nodes see."""

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

SHOWS_S = 10.0  # for a file to show on a file system that caches


def begin(job: dict[str, Any]) -> None:
    """Have node rank 0 make the folder; of a first attempt it is empty.

    What an earlier chain of the same repeat left goes: it is never loaded again.
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
    """Say that this node does not see what node rank 0 made before any node began."""
    chain = job.get("chain")
    until = time.monotonic() + SHOWS_S
    while chain and not visibility.fresh(_begun(job)):
        if time.monotonic() > until:
            return (
                "this node does not see the folder of checkpoints that node rank 0 made (%s); name"
                " one that all nodes share as cluster_checkpoints" % chain["folder"]
            )
        time.sleep(0.1)
    return None


def _begun(job: dict[str, Any]) -> str:
    """Return the file by which node rank 0 says that an attempt's folder is ready."""
    attempt = job["run_id"].rpartition("/")[2]
    return os.path.join(job["chain"]["folder"], FAULTS, "begun-%s" % attempt)


def is_first(job: dict[str, Any]) -> bool:
    """Whether this attempt is the first of its chain: r2-3 is begun by r2a3."""
    name_here = os.path.basename(job["chain"]["folder"])
    return bool(job["run_id"].rpartition("/")[2] == name_here.replace("-", "a"))


def remove(job: dict[str, Any]) -> None:
    """Remove the folder, on node rank 0, once all nodes have ended well: no attempt follows."""
    chain = job.get("chain")
    if chain and chain["node"] == 0:
        shutil.rmtree(chain["folder"], ignore_errors=True)
        above = os.path.dirname(chain["folder"])
        try:
            for _ in range(2):  # of the cell and the campaign, where nothing else is in them
                os.rmdir(above)
                above = os.path.dirname(above)
        except OSError:
            pass
