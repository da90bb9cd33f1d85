"""Compile what came, for the next start of the same program: node/sent.py reads it."""

from __future__ import annotations

import contextlib
import marshal
from importlib.util import MAGIC_NUMBER

from node import sent
from node.files import write_bytes


def keep(file: str) -> None:
    """Leave all modules of a file compiled beside it, once for each Python."""
    path = sent.compiled_path(file)
    if sent.compiled(file):
        return
    code = {name: compile(text, name, "exec") for name, text in sent.SOURCES.items()}
    with contextlib.suppress(OSError):
        write_bytes(path, marshal.dumps((MAGIC_NUMBER, code)), mode=0o600)
