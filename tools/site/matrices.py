"""The gallery of matrices: what each answers, from the comment at its head and from its cells."""

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from runner.matrix.file import load_matrix
from runner.terms.cell import Cell
from tools.site.links import ROOT, Sheet

INTRODUCTION = """\
# Matrices to begin from

Each is a file of the project with the question that it answers. Run it, or copy it and change
it: [the matrix file](matrix.md) explains every key, and the [tutorial](tutorial.md) goes through a
first one. Those of [documents](documents.md) run what somebody else printed, and show their figures
beside yours.

| matrix | what it answers | systems | runs | nodes x devices |
| --- | --- | --- | --- | --- |
"""


class Head(NamedTuple):
    """What the comment at the head of a matrix says: its first sentence, the rest, its commands."""

    question: str
    more: str
    commands: tuple[str, ...]


def head(text: str) -> Head:
    """Read the comment at the head of a matrix; lines further in are commands."""
    lines = [line[1:] for line in re.match(r"(?:#.*\n)*", text)[0].splitlines()]  # type: ignore[index]
    commands = tuple(line.strip() for line in lines if line.startswith("   "))
    words = " ".join(line.strip() for line in lines if not line.startswith("   "))
    question, more = re.split(r"(?<=[.?]) ", f"{words} ", maxsplit=1)
    return Head(question, more.strip(), commands)


def gallery() -> Sheet:
    """Write the page: a table of all matrices, then each with its notes and commands."""
    files = [ROOT / "matrix.yaml", *sorted((ROOT / "matrices").glob("*/*.yaml"))]
    rows = "".join(_row(file) for file in files)
    return Sheet("docs/matrices.md", INTRODUCTION + rows + "".join(map(_section, files)))


def _row(file: Path) -> str:
    matrix = load_matrix(file, lambda nodes: 8)
    runs = len(matrix.cells) * matrix.repeats
    systems = ", ".join(dict.fromkeys(cell.system for cell in matrix.cells))
    question = _text(head(file.read_text(encoding="utf-8")).question)
    cells = (f"[{file.stem}](#{file.stem})", question, systems, str(runs), _sizes(matrix.cells))
    return f"| {' | '.join(cells)} |\n"


def _sizes(cells: Iterable[Cell]) -> str:
    """Say how many nodes and devices a node the largest cell has."""
    nodes, devices = max((cell.nodes, cell.devices_per_node) for cell in cells)
    return f"{nodes} x {devices}"


def _section(file: Path) -> str:
    said = head(file.read_text(encoding="utf-8"))
    path = file.relative_to(ROOT)
    commands = "".join(f"    {line}\n" for line in said.commands)
    parts = (f"## {file.stem}", _text(said.question), _text(said.more), commands.rstrip())
    text = "\n\n".join(part for part in parts if part)
    return f"\n{text}\n\nThe file: [{path}](../{path}).\n"


def _text(words: str) -> str:
    """Return a comment's words as Markdown, where a document leads to what it is."""
    link = r"[\1](documents.md#document-\2)"
    return re.sub(r"\b([Dd]ocument (00\d))\b", link, html.escape(words, quote=False))
