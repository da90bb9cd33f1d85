"""Send a program of node/ to where it runs: its module, and those that it imports.

A message (node/bootstrap.py says what is in it) travels on standard input, to a Python of which the
command line says no more than the program's name; a program's arguments are not there.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import textwrap
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from node.bootstrap import command

__all__ = ["bundle", "command", "message", "sources"]

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("node.bootstrap", "node.answer")  # what receives every program
# A message is made for each task and node, and parsing whole modules would take most of its time.
TYPES_ALONE = re.compile(r"^([ \t]*)if TYPE_CHECKING:.*\n(?:\1[ \t]+.*\n|[ \t]*\n)*", re.MULTILINE)
STATEMENT = re.compile(
    r"^[ \t]*(?:from[ \t]+[.\w]+[ \t]+import[ \t]*(?:\([^)]*\)|[^\n(]*)|import[ \t][^\n]*)"
    r"|^SENDS\b[^=\n]*=[ \t]*\([^)]*\)",
    re.MULTILINE,
)


# Hosts have threads, and two in ast.parse at once end with "AST constructor recursion depth
# mismatch" on Python before 3.11.8 and 3.12.2 (python/cpython#106905).
_PARSING = threading.Lock()


def sources(entry: str) -> dict[str, str]:
    """Return the modules that the program `module:function` needs: name to text.

    Raises LookupError for a program that does not exist.
    """
    with _PARSING:
        return _sources(entry)


@cache
def _sources(entry: str) -> dict[str, str]:
    module, _, function = entry.partition(":")
    text = _read(f"node.{module}", ROOT)
    if text is None or not re.search(rf"^def {re.escape(function)}\(", text, re.MULTILINE):
        raise LookupError(f"{entry} is not a program of node/; a program is module:function")
    texts: dict[str, str] = {}
    ahead = [*ALWAYS, f"node.{module}"]
    while ahead:
        name = ahead.pop()
        text = None if name in texts else _read(name, ROOT)
        if text is not None:
            texts[name] = text
            package = (ROOT / Path(*name.split("."))).is_dir()
            ahead += [name.rpartition(".")[0], *imported(text, name, package)]
    return texts


@cache
def bundle(entry: str) -> tuple[str, str]:
    """Return a file of the modules that a program needs: its name, their checksum, and its text."""
    text = json.dumps(sources(entry), sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json", text


def message(
    entry: str, arguments: Any = None, file: str = "", environment: Mapping[str, str] | None = None
) -> str:
    """Return the message that runs a program; `file` is on a node that has the modules already."""
    carried = {"file": file} if file else {"sources": sources(entry)}
    more = {"environment": environment} if environment else {}
    return json.dumps({**carried, **more, "entry": f"node.{entry}", "arguments": arguments})


def imported(text: str, name: str, package: bool) -> Iterator[str]:
    """Yield what a module imports from node/ anywhere, and what it sends on (SENDS).

    A name that is imported from a package may be a module or not: each is yielded.
    """
    for statement in _statements(TYPES_ALONE.sub("", text)):
        if isinstance(statement, ast.Assign):
            yield from ast.literal_eval(statement.value)
        elif isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            above = name.split(".")
            above = above[: len(above) - statement.level + package] if statement.level else []
            origin = ".".join([*above, *filter(None, [statement.module])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in statement.names)


def _statements(text: str) -> Iterator[ast.stmt]:
    for match in STATEMENT.finditer(text):
        try:
            yield from ast.parse(textwrap.dedent(match[0])).body
        except SyntaxError:
            continue  # a sentence of a docstring


@cache
def _read(name: str, root: Path) -> str | None:
    """Return a module's text; None outside of node/."""
    if name.partition(".")[0] != "node":
        return None
    path = root / Path(*name.split("."))
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
