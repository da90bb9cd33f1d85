"""Where long marks stand in a text: all of them in one pass, as fast as one by `bytes.find`.

Every eight bytes are taken as one number. Of the first SHORTEST bytes of a mark, eight are always
one of these, wherever it stands. So a table of all eights of all marks, by a hash, says where a
mark may stand, and only there bytes are compared. Measured: benchmarks/parse.py.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SHORTEST = 15  # bytes of a mark: eight from each of eight places
_BITS = 16  # of a hash: the high ones of a product, which depend on all bytes
_FACTOR, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _BITS)


def _hash(eights: NDArray[np.uint64]) -> NDArray[np.int64]:
    product = eights * _FACTOR
    product >>= _SHIFT
    return product.view(np.int64)


class Finder:
    """Finds some marks, none shorter than SHORTEST; a beginning that is common costs more."""

    def __init__(self, marks: Iterable[bytes]) -> None:
        self._marks: dict[int, list[tuple[int, bytes]]] = {}  # of eight bytes: how far into which
        for mark in marks:
            for inside in range(SHORTEST - 7):
                eight = int(np.frombuffer(mark, np.uint64, 1, inside)[0])
                self._marks.setdefault(eight, []).append((inside, mark))
        self._table = np.zeros(1 << _BITS, np.bool_)
        self._table[_hash(np.array([*self._marks], np.uint64))] = True

    def find(self, text: bytes) -> list[tuple[int, bytes]]:
        """Return where which mark stands, in the text's order."""
        if len(text) < SHORTEST:
            return []
        eights = np.frombuffer(text, np.uint64, len(text) // 8)
        likely = np.flatnonzero(self._table[_hash(eights)])
        return sorted(
            (at - inside, mark)
            for at, eight in zip((likely * 8).tolist(), eights[likely].tolist(), strict=True)
            for inside, mark in self._marks.get(eight, ())
            if at >= inside and text.startswith(mark, at - inside)
        )
