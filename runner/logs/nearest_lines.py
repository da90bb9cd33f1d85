"""The lines of a log that come nearest to a pattern which matched none. Pure."""

import re

from node.printable import printable

MOST_LINES = 20_000  # that are looked at
MOST_SHOWN = 2
LONGEST = 200  # bytes of a line that are looked at, and shown
_WORD = re.compile(rb"[A-Za-z]{2,}")
# Of a stack of Python or py-spy, and what stands before it: no step.
_STACK = re.compile(
    rb'File "[^"]*", line \d|^\[trainbench: |^(?:Current t|T)hread |^\s+\S+ \(\S+:\d+\)$'
)
_SPECIAL = re.compile(rb"\\.|\[[^]\[]*\]|\(\?\w*:?|[(){}|*+?^$.]")


class NearLines:
    """Keeps the lines that hold the most of a pattern's own words; the first of them."""

    def __init__(self, pattern: str) -> None:
        plain = _SPECIAL.sub(b" ", pattern.encode())
        self._vocabulary = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(plain)))[:20]
        self._best: list[tuple[int, bytes]] = []
        self._first_numeric = b""
        self._looked = 0

    def look(self, text: bytes) -> None:
        """Look at the lines of a text."""
        if self._looked >= MOST_LINES:
            return
        for line in text.split(b"\n", MOST_LINES - self._looked):
            self._looked += 1
            if _STACK.search(line[:LONGEST]):
                continue
            small = line[:LONGEST].lower()
            if not self._first_numeric and any(48 <= byte <= 57 for byte in small):
                self._first_numeric = line[:LONGEST]
            score = sum(word in small for word in self._vocabulary)
            worst = self._best[-1][0] if len(self._best) == MOST_SHOWN else 0
            if score > worst:
                self._best = sorted([*self._best, (score, line[:LONGEST])], key=_score)[:MOST_SHOWN]

    def sentence(self) -> str:
        """Say them: `; the nearest are: '...'`, or that no line has a word of the pattern."""
        lines = [line for _, line in self._best] or [self._first_numeric] * bool(
            self._first_numeric
        )
        quoted = [repr(printable(line.decode("utf-8", "replace")).strip()) for line in lines]
        if self._best or not quoted:
            return f"; nearest: {', '.join(quoted)}" if quoted else ""
        return f"; no line has one of its words, the first with a number is {quoted[0]}"


def _score(entry: tuple[int, bytes]) -> int:
    return -entry[0]
