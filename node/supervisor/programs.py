"""Keep on a node what it was sent, and compiled: later runs have it neither sent nor compiled."""

from __future__ import annotations

import contextlib
import json
import os
import shutil

from node import bootstrap, trusted_folder
from node.compiled import keep
from node.files import holds

from .files import write


def leave(file: str, folder: str) -> None:
    """Leave what came in `file`, in place of other versions, and in a run's folder.

    The folder has links to it, so that what another version removes here stays there.
    """
    above, name = os.path.split(file)
    os.makedirs(above, mode=0o700, exist_ok=True)
    trusted_folder.check(above, trusted_folder.own_groups(), above=False)
    text = json.dumps(bootstrap.SOURCES)
    if not holds(file, text.encode()):
        for version in os.listdir(above):
            with contextlib.suppress(FileNotFoundError):  # another checkout's run removed it
                os.unlink(os.path.join(above, version))
        write(file, text)
    keep(file)
    for path, name in (
        (file, bootstrap.FILE),
        (bootstrap.compiled_path(file), bootstrap.compiled_path(bootstrap.FILE)),
    ):
        try:
            os.link(path, os.path.join(folder, name))
        except OSError:  # a file system without links
            shutil.copyfile(path, os.path.join(folder, name))
