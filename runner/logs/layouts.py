"""Many `label: value |` lines at once, with arrays.

Lines of one trainer have one *layout*: the same labels between the same number of `|`. A layout is
learned from the first line that a slow reader has read, and every further line is checked against
it byte by byte (its labels, its numbers' digits) before a value is taken. A line that differs in
anything is left to the slow reader, so that this is an accelerator only: it never decides what a
line means. Measured: benchmarks/parse.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runner.logs.batch import Floats, Ints

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

WIDEST = 12  # characters of the widest number that is read here
COLUMN = OCTET = 8  # characters of the widest column of whole numbers
SHORTEST = 64  # bytes; a shorter text is filled up with spaces, so that every window fits
PIECE = 1 << 17  # bytes, of the level-2 cache
RARE = 2000  # bytes a line, from which on single searches are faster than one over all
_SLASH, _PIPE, _SPACE, _DOT, _ZERO, _NEWLINE = (ord(sign) for sign in "/| .0\n")
_EACH = np.uint64(0x0101010101010101)  # times a byte: that in all eight


def items(text: bytes, width: int) -> NDArray[np.void]:
    """View every `width` bytes of a buffer: item i is text[i:i+width]."""
    return np.ndarray((len(text) - width + 1,), f"V{width}", text, strides=(1,))


def windows(text: bytes, starts: Ints, width: int) -> Bytes:
    """View one row of `width` bytes for each start."""
    return items(text, width)[starts].view(np.uint8).reshape(-1, width)


def _marked(data: Bytes) -> Ints:
    """Find where a slash or a pipe stands. In small pieces: fresh large arrays cost page faults."""
    slashes, pipes = np.empty(PIECE, np.bool_), np.empty(PIECE, np.bool_)
    pieces = []
    for start in range(0, len(data), PIECE):
        piece = data[start : start + PIECE]
        marked = slashes[: len(piece)]
        np.equal(piece, _SLASH, out=marked)
        marked |= np.equal(piece, _PIPE, out=pipes[: len(piece)])
        pieces.append(np.flatnonzero(marked) + start)
    return np.concatenate(pieces)


class Marks:
    """Where the slashes and pipes of a text stand: one pass over it."""

    def __init__(self, text: bytes) -> None:
        if len(text) < SHORTEST:
            text += b" " * SHORTEST
        self.text = text
        self.data = np.frombuffer(text, np.uint8)
        at = _marked(self.data)
        pipe = self.data[at] == _PIPE
        self.pipes: Ints = at[pipe]
        self._slashes: Ints = at[~pipe]

    def heads(self) -> tuple[Ints, Ints]:
        """Find where `iteration N/M |` stands: the slash and the pipe of each.

        Numbers have at most 9 digits and 9 spaces before them. NeMo's `epoch 0, iteration N/M |` is
        another line.
        """
        data, at = self.data, self._slashes
        at = at[(at > 10) & (at < len(data) - 3)]
        at = at[data[at - 1] - _ZERO < 10]
        after = data[at + 1]
        at = at[(after == _SPACE) | (after - _ZERO < 10)]
        left = self._walk(self._walk(at - 1, -1, _ZERO, 10), -1, _SPACE, 1)
        before = items(self.text, 9)[np.maximum(left - 8, 0)]
        nemo = data[np.maximum(left - 10, 0)] == ord(",")
        at = at[(before == np.void(b"iteration")) & (data[left + 1] == _SPACE) & ~nemo]
        number = self._walk(at + 1, 1, _SPACE, 1)
        right = self._walk(number, 1, _ZERO, 10)
        closed = (right > number) & (data[right] == _SPACE)
        closed &= data[np.minimum(right + 1, len(data) - 1)] == _PIPE
        return at[closed], right[closed] + 1

    def _walk(self, at: Ints, step: int, first: int, kinds: int) -> Ints:
        """Go on while the character is one of `kinds` from `first`; at most 9 of them."""
        last = len(self.data) - 1
        for _ in range(9):
            more = self.data[at] - first < kinds  # unsigned: what is below `first` is far above
            if not more.any():
                break
            at = at + step * more
            if step > 0:
                np.minimum(at, last, out=at)
        return at

    def line_ends(self, at: Ints) -> Ints:
        """Find where the line around each place ends: at its newline or the end of the text."""
        if len(at) * RARE < len(self.text):
            ends = [self.text.find(b"\n", place) for place in at.tolist()]
            places = np.array(ends, np.int64)
            return np.where(places < 0, len(self.text), places)
        newlines = np.append(np.flatnonzero(self.data == _NEWLINE), len(self.text))
        return newlines[np.searchsorted(newlines, at)]


@dataclass(frozen=True)
class Field:
    """A number of a layout: between which pipes, after which label, and how it is written.

    `label` is all of it up to the number (at least 8 bytes). `places` are its decimals; -1 is a
    whole number in a column of `width` characters; None takes the number's position only.
    """

    name: str
    index: int
    label: bytes
    places: int | None
    width: int = 0


class Layout:
    """The labels of one kind of line, learned from one: `signature` is each field's beginning.

    Of the wanted fields, those with decimals come first, then whole numbers, then positions.
    """

    def __init__(self, signature: Words, fields: Sequence[Field]) -> None:
        decimals = [field for field in fields if (field.places or 0) > 0]
        wholes = [field for field in fields if field.places == -1]
        self.fields = [*decimals, *wholes, *(field for field in fields if field.places is None)]
        self.pipes = len(signature) + 1
        self.signature = signature
        self.index = np.array([field.index for field in self.fields])
        self.lengths = np.array([len(field.label) for field in self.fields])[:, None]
        tails = b"".join(field.label[-8:] for field in self.fields)
        self.tails: Words = np.frombuffer(tails, np.uint64)[:, None]
        self.decimals, self.wholes = len(decimals), len(wholes)
        self.places = np.array([field.places for field in decimals], np.int64)[:, None]
        self.widths = np.array([field.width for field in wholes], np.int64)[:, None]


@dataclass(frozen=True)
class Values:
    """What a layout read: `rows` are the lines (in order); a column a name, an entry a line."""

    rows: Ints
    floats: dict[str, Floats]
    ints: dict[str, Ints]
    spans: dict[str, tuple[Ints, Ints]]


class Table:
    """Lines of one block: `heads` is each one's first pipe, `ends` where it ends."""

    def __init__(self, marks: Marks, heads: Ints, ends: Ints) -> None:
        self.text = marks.text
        self.data = marks.data
        self.words: Words = np.ndarray((len(self.text) - 7,), np.uint64, self.text, strides=(1,))
        self.pipes = marks.pipes
        self.first = np.searchsorted(self.pipes, heads)
        self.count = np.searchsorted(self.pipes, ends) - self.first

    def _bounds(self, rows: Ints, pipes: int) -> Ints:
        bounds: Ints = self.pipes[np.arange(pipes)[:, None] + self.first[rows]]
        return bounds

    def _words(self, starts: Ints) -> Words:
        """Read eight bytes from each start, as one number."""
        return self.words[np.minimum(starts, len(self.words) - 1)]

    def learn(self, row: int, fields: Sequence[Field]) -> Layout:
        """Learn the layout of one line, whose fields the slow reader has found."""
        bounds = self._bounds(np.array([row]), int(self.count[row]))
        return Layout(self._words(bounds[:-1] + 1), fields)

    def read(self, layout: Layout, rows: Ints) -> Values:
        """Read the numbers of those of `rows` that have the layout in every byte that matters."""
        rows = rows[self.count[rows] == layout.pipes]
        bounds = self._bounds(rows, layout.pipes)
        fits = (self._words(bounds[:-1] + 1) == layout.signature).all(axis=0)
        starts = bounds[layout.index] + (layout.lengths + 1)
        ends = bounds[layout.index + 1] - 1
        sizes = ends - starts
        good = (self._words(starts - 8) == layout.tails) & (self.data[ends] == _SPACE)
        fits &= (good & (sizes > 0) & (sizes <= WIDEST)).all(axis=0)
        split = layout.decimals, layout.decimals + layout.wholes
        numbers = self._decimals(layout, ends[: split[0]], sizes[: split[0]], fits)
        wholes = self._wholes(layout, ends[split[0] : split[1]], sizes[split[0] : split[1]], fits)
        if not fits.all():
            rows, numbers, wholes = rows[fits], numbers[:, fits], wholes[:, fits]
            starts, ends = starts[:, fits], ends[:, fits]
        starts, ends = starts[split[1] :], ends[split[1] :]
        names = [field.name for field in layout.fields]
        return Values(
            rows,
            dict(zip(names, numbers, strict=False)),
            dict(zip(names[split[0] :], wholes, strict=False)),
            dict(zip(names[split[1] :], zip(starts, ends, strict=True), strict=False)),
        )

    def _decimals(self, layout: Layout, ends: Ints, sizes: Ints, fits: Mask) -> Floats:
        """Read numbers with a dot. Exact: a whole number divided by a power of ten."""
        dots = ends - 1 - layout.places
        before, good = _digits(self._words(dots - OCTET), sizes - 1 - layout.places)
        behind, good_too = _digits(self._words(ends - OCTET), layout.places)
        fits &= (good & good_too & (self.data[dots] == _DOT)).all(axis=0)
        value: Floats = (before * 10.0**layout.places + behind) / 10.0**layout.places
        return value

    def _wholes(self, layout: Layout, ends: Ints, sizes: Ints, fits: Mask) -> Ints:
        """Read whole numbers, right-aligned in a column of fixed width after spaces."""
        fits &= (sizes == layout.widths).all(axis=0)
        octets = self._words(ends - OCTET)
        if ends.shape[1] > 1 and (octets == octets[:, :1]).all():  # nothing skipped, one batch size
            same = np.ones(1, np.bool_)
            value = self._wholes(layout, ends[:, :1], layout.widths, same)
            fits &= same
            return np.repeat(value, ends.shape[1], axis=1)
        places = np.arange(OCTET)[:, None, None]  # from the last one
        inside = places < layout.widths
        signs = self.data[ends - 1 - places]
        digit, space = signs - _ZERO < 10, signs == _SPACE
        good = (digit | space | ~inside).all(axis=0) & digit[0]
        good &= (digit[:-1] | ~digit[1:] | ~inside[1:]).all(axis=0)  # no digit before a space
        number, _ = _digits(octets, (digit & inside).sum(axis=0))
        fits &= good.all(axis=0)
        return number.astype(np.int64)


def _digits(octets: Words, sizes: Ints) -> tuple[Floats, Mask]:
    """Read the last `sizes` characters of eight, all at once; and whether they are digits.

    Neighbours are joined to numbers of two, of four, of eight digits.
    """
    inside = np.uint64(0) - (np.uint64(1) << (8 * (OCTET - sizes.clip(1, OCTET))).astype(np.uint64))
    digits = (octets ^ _EACH * np.uint64(_ZERO)) & inside
    good = ((digits + _EACH * np.uint64(6) | digits) & _EACH * np.uint64(0xF0)) == 0
    twos = (digits * np.uint64(10 << 8 | 1) >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    fours = (twos * np.uint64(100 << 16 | 1) >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    eights = fours * np.uint64(10000 << 32 | 1) >> np.uint64(32)
    return eights.astype(np.float64), good & (sizes > 0) & (sizes <= OCTET)


def whole_numbers(text: bytes, ends: Ints, width: int) -> Ints:
    """Read the whole numbers that end before `ends`, of at most `width` digits."""
    digits = windows(text, ends - width, width) - _ZERO
    good = digits < 10
    for column in range(width - 2, -1, -1):  # a digit counts only next to the next one
        good[:, column] &= good[:, column + 1]
    powers = 10.0 ** np.arange(width - 1, -1, -1)
    value: Ints = ((digits * good).astype(np.float64) @ powers).astype(np.int64)
    return value
