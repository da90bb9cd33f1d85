"""Whole lines from byte blocks."""

import re
from collections.abc import Iterable, Iterator

LONGEST_LINE = 1 << 16  # bytes; what is longer is no line of a trainer, and is cut

_CODE = rb"\x1b\[[0-9;?]*[A-Za-z]"
ANSI = re.compile(_CODE)
# Those that do not stand within a number, whose two halves would be joined to another one.
_BESIDE_NUMBERS = re.compile(
    rb"(?<![\d.,+-])(?<!\d[eE])(?:%b)+|(?:%b)++(?![\d.,eE+-])" % (_CODE, _CODE)
)
# What launchers put before a line: `[default7]:`, `[rank3]: `, `host: `, `0: `, `stdout: `,
# mpirun's `[1,3]<stderr>:`, the time of `kubectl logs --timestamps`, with CRI's `stdout F ` in
# /var/log/pods, the time of ts (moreutils), with host and unit where journalctl wrote it.
PREFIX = re.compile(
    rb"^(?:\s*\[(?:default|rank|worker-?)?\d+\]\s?:\s?"
    rb"|(?:stdout|stderr): ?"
    rb"| *\d+: (?=\S)"
    rb"|\[\d+,\d+\]<std(?:out|err)>: ?"
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "
    rb"(?:[\w.-]{1,64} [\w./@-]{1,64}(?:\[\d{1,9}\])?: )?"
    rb"|(?:\d{1,3}(?:\.\d{1,3}){3}|localhost"
    rb"|(?!E[A-Z]\d{4}:|python[\d.]*:)[A-Za-z](?=[A-Za-z_.-]*\d)[\w.-]*): "
    rb"|\([^()\s]+ pid=\d[^)]*\) ?"
    rb"|[\w.-]+[ ]+\| )"
)


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the texts of `placed_lines`."""
    return (text for _, text in placed_lines(blocks))


def placed_lines(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the same bytes, cut behind a line's end, so that no line is split over two blocks; and
    how many were before.

    A carriage return ends a line, too. The last piece may lack its line's end: then it may be
    half a line, and parsers take from it only what another character closes. So may one that is
    longer than LONGEST_LINE, and the rest of such a line is left out: it may begin in a number.
    """
    pending, torn, read = b"", False, 0
    for block in blocks:
        cut = block.rfind(b"\n") + 1 or block.rfind(b"\r") + 1
        if not cut:
            pending += b"" if torn else block
            read += len(block)
            if len(pending) > LONGEST_LINE:
                yield read - len(pending), pending
                pending, torn = b"", True
            continue
        begin = line_end(newlines(block), 0) + 1 if torn else 0
        text = b"".join((pending, memoryview(block)[begin:cut])) if pending else block[begin:cut]
        yield read - len(pending) + begin, text
        pending, torn, read = block[cut:], False, read + len(block)
    if pending:
        yield read - len(pending), pending


def places(text: bytes, mark: bytes) -> Iterator[int]:
    """Yield where a mark stands, each time; in a long line of dashes not at each of them."""
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + len(mark))


def uncoloured(text: bytes) -> bytes:
    """Take colours out of a text; one within a number stays, so that it is read as none."""
    return _BESIDE_NUMBERS.sub(b"", text) if b"\x1b" in text else text


def line_end(text: bytes, at: int) -> int:
    """Return where the line around `at` ends: its newline, else the text's end."""
    end = text.find(b"\n", at)
    return len(text) if end < 0 else end


def line_start(text: bytes, at: int, after: int = 0) -> int:
    """Return where the line around `at` begins, or `after`: nothing before that is looked at."""
    return max(text.rfind(b"\n", after, at), after - 1) + 1


def newlines(text: bytes) -> bytes:
    """Return a text whose lines all end in a newline: a carriage return ends a line, too."""
    return text.replace(b"\r", b"\n")


def unprefixed(line: bytes) -> bytes:
    """Take out what launchers put before a line, up to three of them."""
    at = 0
    for _ in range(3):
        if not (prefix := PREFIX.match(line[at:])):
            break
        at += prefix.end()
    return line[at:]
