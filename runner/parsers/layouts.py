"""Many `label: value |` lines at once, with arrays.

Lines of one trainer have one *layout*: the same labels between the same number of `|`. A layout is
learned from the first line that a slow reader has read, and every further line is checked against
it byte by byte (its labels, its numbers' digits) before a value is taken. A line that differs in
anything is left to the slow reader, so that this is an accelerator only: it never decides what a
line means. Measured: benchmarks/parse.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runner.parsers.batch import Floats, Ints

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]

PAD = b" " * 32  # before and after a buffer, so that a window never leaves it
WIDEST = 16  # characters of the widest number that is read here
_SLASH, _PIPE, _SPACE, _DOT, _ZERO = (ord(sign) for sign in "/| .0")


def items(text: bytes, width: int) -> NDArray[np.void]:
    """Every `width` bytes of a buffer, as a view: item i is text[i:i+width]."""
    return np.ndarray((len(text) - width + 1,), f"V{width}", text, strides=(1,))


def windows(text: bytes, starts: Ints, width: int) -> Bytes:
    """One row of `width` bytes for each start."""
    return items(text, width)[starts].view(np.uint8).reshape(-1, width)


def heads(text: bytes) -> tuple[Ints, Ints]:
    """Where `iteration N/M |` stands: the slash and the pipe of each.

    `text` begins and ends with PAD. Numbers have at most 9 digits and 9 spaces before them.
    """
    data = np.frombuffer(text, np.uint8)
    at = np.flatnonzero(data == _SLASH)
    at = at[data[at - 1] - _ZERO < 10]
    after = data[at + 1]
    at = at[(after == _SPACE) | (after - _ZERO < 10)]
    left = _walk(data, _walk(data, at - 1, -1, _ZERO, 10), -1, _SPACE, 1)
    named = (items(text, 9)[left - 8] == np.void(b"iteration")) & (data[left + 1] == _SPACE)
    at = at[named]
    number = _walk(data, at + 1, 1, _SPACE, 1)
    right = _walk(data, number, 1, _ZERO, 10)
    closed = (right > number) & (data[right] == _SPACE) & (data[right + 1] == _PIPE)
    return at[closed], right[closed] + 1


def _walk(data: Bytes, at: Ints, step: int, first: int, kinds: int) -> Ints:
    """Go on while the character is one of `kinds` characters from `first`; at most 9 of them."""
    for _ in range(9):
        more = data[at] - first < kinds  # unsigned: what is below `first` is far above
        if not more.any():
            break
        at = at + step * more
    return at


@dataclass(frozen=True)
class Field:
    """A number of a layout: between which pipes, after which label, and how it is written.

    `label` is all of it up to the number. `places` are its decimals; -1 is a whole number in a
    column of `width` characters; None takes the number's position only.
    """

    name: str
    index: int
    label: bytes
    places: int | None
    width: int = 0


@dataclass(frozen=True)
class Layout:
    """The labels of one kind of line: `pipes` in all, and the fields whose numbers are wanted."""

    pipes: int
    signature: NDArray[np.uint64]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Values:
    """What a layout read: `rows` are the lines (in order), the rest has one entry for each."""

    rows: Ints
    floats: dict[str, Floats]
    ints: dict[str, Ints]
    spans: dict[str, tuple[Ints, Ints]]


class Table:
    """Lines of one block, one after the other in `text`; `line_heads` is each one's first pipe.

    `text` begins and ends with PAD; `ends` is where each line ends.
    """

    def __init__(self, text: bytes, line_heads: Ints, ends: Ints) -> None:
        self.text = text
        self.data = np.frombuffer(text, np.uint8)
        self.pipes = np.flatnonzero(self.data == _PIPE)
        self.first = np.searchsorted(self.pipes, line_heads)
        self.count = np.searchsorted(self.pipes, ends) - self.first

    def _bounds(self, rows: Ints, pipes: int) -> Ints:
        bounds: Ints = self.pipes[self.first[rows][:, None] + np.arange(pipes)]
        return bounds

    def _signature(self, bounds: Ints) -> NDArray[np.uint64]:
        found = items(self.text, 8)[bounds[:, :-1] + 1]
        return found.view(np.uint64).reshape(found.shape)

    def learn(self, row: int, fields: Sequence[Field]) -> Layout:
        """The layout of one line, whose fields the slow reader has found."""
        pipes = int(self.count[row])
        signature = self._signature(self._bounds(np.array([row]), pipes))[0]
        return Layout(pipes, signature.copy(), tuple(fields))

    def read(self, layout: Layout, rows: Ints) -> Values:
        """The numbers of those of `rows` that have the layout in every byte that matters."""
        rows = rows[self.count[rows] == layout.pipes]
        bounds = self._bounds(rows, layout.pipes)
        fits = (self._signature(bounds) == layout.signature).all(axis=1)
        floats: dict[str, Floats] = {}
        ints: dict[str, Ints] = {}
        spans: dict[str, tuple[Ints, Ints]] = {}
        for field in layout.fields:
            start = bounds[:, field.index] + 1
            fits &= items(self.text, len(field.label))[start] == np.void(field.label)
            start = start + len(field.label)
            end = bounds[:, field.index + 1] - 1
            fits &= (self.data[end] == _SPACE) & (end > start) & (end - start <= WIDEST)
            if field.places is None:
                spans[field.name] = (start, end)
            elif field.places < 0:
                ints[field.name] = self._whole(start, end, field.width, fits)
            else:
                floats[field.name] = self._decimal(start, end, field.places, fits)
        if fits.all():
            return Values(rows, floats, ints, spans)
        return Values(
            rows[fits],
            {name: column[fits] for name, column in floats.items()},
            {name: column[fits] for name, column in ints.items()},
            {name: (start[fits], end[fits]) for name, (start, end) in spans.items()},
        )

    def _decimal(self, start: Ints, end: Ints, places: int, fits: Mask) -> Floats:
        """Numbers with `places` decimals, right-aligned at `end`. Exact: a whole number / 10^n."""
        digits = windows(self.text, end - WIDEST, WIDEST) - _ZERO
        good = digits < 10
        powers = np.zeros((WIDEST, 1))
        column = [*range(places), *range(places + 1, WIDEST)]
        for power, place in enumerate(column):
            powers[WIDEST - 1 - place] = 10.0**power
        fits &= (self.data[end - 1 - places] == _DOT) & (good.sum(axis=1) == end - start - 1)
        value: Floats = ((digits * good).astype(np.float64) @ powers).ravel() / 10.0**places
        return value

    def _whole(self, start: Ints, end: Ints, width: int, fits: Mask) -> Ints:
        """Whole numbers, right-aligned in a column of `width` characters that begins at `start`."""
        signs = windows(self.text, end - width, width)
        digits = signs - _ZERO
        good = digits < 10
        fits &= (end - start == width) & good[:, -1] & (good | (signs == _SPACE)).all(axis=1)
        fits &= (good[:, 1:] >= good[:, :-1]).all(axis=1)
        powers = 10.0 ** np.arange(width - 1, -1, -1)
        value: Ints = ((digits * good).astype(np.float64) @ powers).astype(np.int64)
        return value


def whole_numbers(text: bytes, ends: Ints, width: int) -> Ints:
    """The whole numbers that end before `ends`, of at most `width` digits."""
    digits = windows(text, ends - width, width) - _ZERO
    good = digits < 10
    for column in range(width - 2, -1, -1):  # a digit counts only next to the next one
        good[:, column] &= good[:, column + 1]
    value: Ints = (
        (digits * good).astype(np.float64) @ 10.0 ** np.arange(width - 1, -1, -1)
    ).astype(np.int64)
    return value
