"""Compile what came, for the next start of the same program: node/bootstrap.py reads it."""

from __future__ import annotations

import contextlib
import marshal
from importlib.util import MAGIC_NUMBER

from node import bootstrap
from node.files import write_bytes


def keep(file: str) -> None:
    """Leave all modules of a file compiled beside it, once for each Python."""
    path = bootstrap.compiled_path(file)
    if bootstrap.compiled(file):
        return
    code = {name: compile(text, name, "exec") for name, text in bootstrap.SOURCES.items()}
    with contextlib.suppress(OSError):
        write_bytes(path, marshal.dumps((MAGIC_NUMBER, code)), mode=0o600)
