"""Grids of texts: the one place that draws them. Pure.

`ruled` and what is made of it fit a terminal's width, for which cells wrap (rich); `aligned` is as
wide as its texts, for terminals and for Markdown (tabulate).
"""

import io
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from rich.box import HEAVY_HEAD, SIMPLE_HEAD, Box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from runner.base.console import Screen, one_line
from runner.base.escapes import TerminalLine

GAP = 2  # what `aligned` puts between two columns


def filled(text: str, width: int) -> str:
    """Wrap a sentence into lines of `width`, further ones indented."""
    return textwrap.fill(text, max(width, 40), subsequent_indent="  ", break_on_hyphens=False)


def ruled(
    headers: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    box: Box = HEAVY_HEAD,
    unbroken: int = 0,
    right: Collection[str] = (),
) -> Table:
    """Lay the rows out below their headers and a rule.

    Words of the first `unbroken` columns are not broken; columns named in `right` are set right.
    """
    table = Table(box=box, show_edge=False, pad_edge=False)
    for index, header in enumerate(headers):
        table.add_column(
            one_line(header),
            overflow="ellipsis" if index < unbroken else "fold",
            justify="right" if header in right else "left",
        )
    for row in rows:
        table.add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def plain_text(parts: Iterable[Table | Text | str], width: int) -> str:
    """Write the parts as plain text of that width."""
    console = _console(width)
    for block in parts:
        console.print(block, soft_wrap=not isinstance(block, Table))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Draw the rows below their headers and a rule, in `width` columns.

    Where words would be broken, each row is a paragraph: its first text, and a line for each other.
    """
    if not fits(headers, rows, width):
        return "\n\n".join(_paragraph(headers, row, width) for row in rows)
    return plain_text([ruled(headers, rows, box=SIMPLE_HEAD)], width).rstrip()


def _paragraph(headers: Sequence[str], row: Sequence[str], width: int) -> str:
    header_width = max(map(len, headers[1:]), default=0)
    lines = [filled(row[0], width)]
    for header, text in zip(headers[1:], row[1:], strict=True):
        if text:
            indent = " " * (2 + header_width + GAP)
            lead = f"  {header:<{header_width}}{' ' * GAP}"
            lines.append(
                textwrap.fill(
                    text,
                    max(width, 40),
                    initial_indent=lead,
                    subsequent_indent=indent,
                    break_on_hyphens=False,
                    break_long_words=False,
                )
            )
    return "\n".join(map(TerminalLine, "\n".join(lines).split("\n")))


def fits(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether no word of the grid needs to be broken."""
    console = _console(width)
    table = ruled(headers, rows, box=SIMPLE_HEAD)
    needed = Measurement.get(console, console.options.update(width=10_000), table)
    return needed.minimum <= width


def _console(width: int) -> Screen:
    return Screen(file=io.StringIO(), width=width, color_system=None, force_terminal=False)


def aligned(
    rows: Sequence[Sequence[object]],
    form: Literal["plain", "simple", "pipe", "github"],
    headers: Sequence[str] = (),
    align: Sequence[str] | None = None,
    row_align: Sequence[str] | None = None,
) -> str:
    """Set the texts in columns as wide as they need: without or with a rule, or as Markdown."""
    from tabulate import tabulate

    return tabulate(
        rows,
        headers=headers,
        tablefmt=form,
        disable_numparse=True,
        colalign=align,
        rowalign=row_align,
    )
