"""Tests of the programs that run on nodes, each sent as it would be."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from node import answer
from plugins.program import command, message


class Ran(NamedTuple):
    """A program's exit code, its answer (None without one), and its words."""

    code: int
    facts: Any
    words: str


def run(
    entry: str, arguments: Any = None, env: Mapping[str, str] | None = None, python: str = ""
) -> Ran:
    """Send a program to a Python of this machine."""
    argv = [python or sys.executable, "-I", "-S", *command(entry)]
    text = message(entry, arguments)
    done = subprocess.run(argv, input=text, env=env, capture_output=True, text=True, timeout=120)
    return Ran(done.returncode, answer.read(done.stdout), done.stderr.strip())
