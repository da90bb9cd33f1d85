"""Why a log has no step of a known family: what it is, or what seems to be its steps."""

import re
from collections import defaultdict
from itertools import pairwise

from node.printable import printable

# How files begin that are no text; what makes them text.
_PACKED = (
    (b"\x1f\x8b", "gzip; unpack it (gunzip)"),
    (b"\x28\xb5\x2f\xfd", "zstd; unpack it (unzstd)"),
    (b"\xfd7zXZ\0", "xz; unpack it (unxz)"),
    (b"BZh", "bzip2; unpack it (bunzip2)"),
    (b"PK\x03\x04", "zip; unpack it (unzip)"),
    (b"\xff\xfe", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
    (b"\xfe\xff", "UTF-16 text; convert it (iconv -f UTF-16 -t UTF-8)"),
)
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")
LEAST = 3  # lines of one form, whose counter grows, that are taken for steps
LONGEST = 300  # bytes of a line that is looked at
SHOWN = 120
CURE = "give patterns of its lines (--matrix, docs/your-own-trainer.md)"


def why_unread(name: str, sample: bytes) -> str:
    """Say what a log is of which no line is of a known family, by a sample from its beginning.

    Empty where it has nothing that looks like steps.
    """
    for begin, kind in _PACKED:
        if sample.startswith(begin):
            return f"{name} is {kind}"
    if sample.count(b"\0") > len(sample) // 4:
        return f"{name} is no text (UTF-16 has such zeros: iconv -f UTF-16LE -t UTF-8)"
    line = _counting(sample)
    if line is None:
        return ""
    return f"no line is of a known family; {line!r} repeats with a counter: {CURE}"


def _counting(sample: bytes) -> str | None:
    """Return the first line of the most frequent form in which a whole number always grows."""
    forms: dict[bytes, list[bytes]] = defaultdict(list)
    for line in re.split(rb"[\r\n]+", sample):
        if LEAST < len(line) <= LONGEST:
            forms[_NUMBER.sub(b"0", line)].append(line)
    for lines in sorted(forms.values(), key=len, reverse=True):
        if len(lines) >= LEAST and _grows(lines):
            return printable(lines[0].decode("utf-8", "replace")).strip()[:SHOWN]
    return None


def _grows(lines: list[bytes]) -> bool:
    columns = zip(*(_NUMBER.findall(line) for line in lines), strict=True)
    return any(
        all(b"." not in digits and len(digits) < 10 for digits in column)
        and all(int(a) < int(b) for a, b in pairwise(column))
        for column in columns
    )
