"""Numbers of a log, an event file, a file of samples: the one reader of all of them. Pure.

A text is a number whole or not at all, and thousands of digits are not a number: what `int` and
`float` would make of `1_000`, of other scripts' digits or of an endless line is in no log.
"""

import re

WHOLE_DIGITS = 9  # of an iteration, a rank, a count
LONGEST = 40  # characters of a number with decimals
LARGEST = 1e100  # of a loss or a norm: what squares of it are is finite, too
LARGEST_QUANTITY = 1e15  # of a time in ms, a rate, MiB: no run has so much

_CHARACTERS = b"0123456789.+-eE"
_GROUPED = re.compile(rb"[+-]?\d{1,3}(?:,\d{3}){1,%d}(?:\.\d{0,%d})?" % (LONGEST // 3, LONGEST))
_LOST = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_HUMAN = {
    suffix: 1000.0**power
    for power, suffixes in enumerate((b"K", b"M", b"BG", b"T", b"P", b"E"), 1)
    for suffix in suffixes
}


def whole_number(text: bytes | str | None) -> int | None:
    """Read a whole number of at most WHOLE_DIGITS digits, or None."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return int(data) if data and len(data) <= WHOLE_DIGITS and data.isdigit() else None


def number(text: bytes | str | None) -> float | None:
    """Read a finite number up to LARGEST, of either sign, or None, also for nan and inf."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if not data or len(data) > LONGEST or data.strip(_CHARACTERS):
        return None
    try:
        return finite(float(data))
    except ValueError:
        return None


def is_lost(text: bytes | None) -> bool:
    """Return whether a text is how a program prints NaN or an infinite number."""
    return text is not None and _LOST.fullmatch(text) is not None


def finite(value: float) -> float | None:
    """Return a number that is finite and up to LARGEST, of either sign, or None."""
    return value if -LARGEST <= value <= LARGEST else None


def quantity(text: bytes | str | None) -> float | None:
    """Read a number from 0 to LARGEST_QUANTITY, or None."""
    value = number(text)
    return value if value is not None and 0 <= value <= LARGEST_QUANTITY else None


def quantity_of(value: float) -> float | None:
    """Return a number from 0 to LARGEST_QUANTITY, or None."""
    return value if 0 <= value <= LARGEST_QUANTITY else None


def grouped(text: bytes | str | None) -> float | None:
    """Read a number whose digits may be in groups of three, `12,345.6`, or None."""
    data = _bytes(text)
    return number(data.replace(b",", b"") if _GROUPED.fullmatch(data) else data)


def human(text: bytes | str | None) -> float | None:
    """Read a number that may be short for thousands and more, `1.25K` or `2.62M`, or None."""
    data = _bytes(text)
    times = _HUMAN.get(data[-1]) if data else None
    value = number(data[:-1] if times else data)
    return value if value is None or times is None else finite(value * times)


def _bytes(text: bytes | str | None) -> bytes:
    return text.encode(errors="replace") if isinstance(text, str) else text or b""
