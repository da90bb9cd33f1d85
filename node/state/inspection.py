"""The question alone: what differs. Changes nothing."""

from __future__ import annotations

import os
import shutil
from typing import Any

from .compare import compare
from .machine import ROOT, SEARCH, read_machine
from .repositories import KEYRINGS
from .spec import Spec, StateError


def look(spec: Spec) -> dict[str, Any]:
    """Compare."""
    result = compare(spec, read_machine(spec))
    todo = result["todo"]
    folders = {os.path.dirname(item["path"]) for item in todo["apt_files"] + todo["files"]}
    if todo["keys"]:
        folders.add(KEYRINGS)
    # a node without an initramfs, such as a container, needs none made
    todo["after"] = [argv for argv in todo["after"] if shutil.which(argv[0], path=SEARCH)]
    todo["folders"] = sorted(path for path in folders if not os.path.isdir(ROOT + path))
    return result


def verify(spec: Spec) -> dict[str, Any]:
    """Raises StateError with what differs."""
    if differences := look(spec)["differences"]:
        raise StateError("; ".join(differences))
    return {}
