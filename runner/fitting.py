"""A grid of texts as wide as a terminal, by wrapping its cells. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

_GAP = "  "
# What a line may end after: if that is not narrow enough, within names, too.
_WORDS = re.compile(r"[^ ,/]+[,/]* ?| +|[,/]+ ?")
_PARTS = re.compile(r"[^ ,/.=_-]+[,/.=_-]* ?| +|[,/.=_-]+ ?")


def filled(text: str, width: int) -> str:
    """A sentence in lines of `width`, further ones indented."""
    return textwrap.fill(text, max(width, 40), subsequent_indent="  ", break_on_hyphens=False)


def least(rows: Sequence[Sequence[str]], pieces: re.Pattern[str] = _WORDS) -> int:
    """How wide a grid of these rows is at least, its words whole."""
    return sum(_floors(rows, pieces)) + len(_GAP) * (len(rows[0]) - 1)


def grid(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """The rows below their headers and a rule, in `width` columns where it can be."""
    everything = [headers, *rows]
    pieces = _WORDS if least(everything) <= width else _PARTS
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    floors = _floors(everything, pieces)
    room = width - len(_GAP) * (len(headers) - 1)
    while sum(widths) > room:
        wide = [index for index, floor in enumerate(floors) if widths[index] > floor]
        if not wide:
            break
        widths[max(wide, key=lambda index: widths[index])] -= 1
    head, *body = (
        _lines([_wrap(text, most) for text, most in zip(row, widths, strict=True)], widths)
        for row in everything
    )
    return "\n".join([head, _GAP.join("-" * most for most in widths), *body])


def _lines(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """One row, which its tallest cell makes as tall."""
    return "\n".join(
        _GAP.join(text.ljust(most) for text, most in zip(line, widths, strict=True)).rstrip()
        for line in zip_longest(*cells, fillvalue="")
    )


def _wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width`; only a word that is longer is broken."""
    lines = [""]
    for word in _WORDS.findall(text):
        for piece in [word] if len(word.rstrip()) <= width else _PARTS.findall(word):
            if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
                lines.append("")
            lines[-1] += piece
    return [line.rstrip() for line in lines]


def _floors(rows: Sequence[Sequence[str]], pieces: re.Pattern[str]) -> list[int]:
    """The longest piece of each column."""
    return [
        max((len(piece.rstrip()) for text in column for piece in pieces.findall(text)), default=0)
        for column in zip(*rows, strict=True)
    ]
