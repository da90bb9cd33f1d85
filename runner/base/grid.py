"""A grid of texts, and sentences, as wide as a terminal: cells wrap. Pure."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


def filled(text: str, width: int) -> str:
    """Wrap a sentence into lines of `width`, further ones indented."""
    return textwrap.fill(text, max(width, 40), subsequent_indent="  ", break_on_hyphens=False)


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Draw the rows below their headers and a rule, in `width` columns."""
    console = _console(width)
    console.print(_table(headers, rows))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip().splitlines())


def fits(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether no word of the grid needs to be broken."""
    console = _console(width)
    needed = Measurement.get(console, console.options.update(width=10_000), _table(headers, rows))
    return needed.minimum <= width


def _console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for header in headers:
        table.add_column(Text(header), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
