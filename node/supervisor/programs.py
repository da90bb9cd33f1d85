"""Keep on a node what it was sent, and compiled: later runs have it neither sent nor compiled."""

from __future__ import annotations

import json
import os
import shutil

from node import sent
from node.compiled import keep

from .files import write


def leave(file: str, folder: str) -> None:
    """Leave what came in `file`, in place of other versions, and in a run's folder.

    The folder has links to it, so that what another version removes here stays there.
    """
    if not os.path.exists(file):
        above, name = os.path.split(file)
        os.makedirs(above, mode=0o700, exist_ok=True)
        for other in os.listdir(above):
            if not other.startswith(name):
                os.unlink(os.path.join(above, other))
        write(file, json.dumps(sent.SOURCES))
    keep(file)
    for path, name in ((file, sent.FILE), (sent.place(file), sent.place(sent.FILE))):
        try:
            os.link(path, os.path.join(folder, name))
        except OSError:  # a file system without links
            shutil.copyfile(path, os.path.join(folder, name))
