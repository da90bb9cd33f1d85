"""JSON from outside, as a text or a file: bounded, and what it says checked by a kind."""

from __future__ import annotations

import json
import math

from node.files import read_start
from node.printable import printable
from node.schema import UnfitError, unfit

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any

    from node.schema import Kind

MOST_BYTES = 64 * 1024 * 1024  # of one JSON text
MOST_DIGITS = 100  # of one number


def parse(text: str | bytes, kind: Kind, where: str = "", most: int = MOST_BYTES) -> Any:
    """Return what a JSON text says, checked. Raises UnfitError.

    `where` begins the sentence: a file's or a node's name. `most` is in bytes, or letters.
    """
    if len(text) > most:
        raise unfit(where, "has %d bytes, more than %d" % (len(text), most))
    try:
        value = json.loads(
            text, parse_int=_whole_number, parse_float=_number, parse_constant=_no_constant
        )
    except RecursionError:
        raise unfit(where, "is nested too deep") from None
    except ValueError as error:  # UnicodeDecodeError, JSONDecodeError and ours
        raise unfit(where, "is not JSON: %s" % printable(str(error))[:200]) from None
    return kind.check(value, where and where + ":")


def load(path: str, kind: Kind, most: int = MOST_BYTES, where: str = "") -> Any:
    """Return what a JSON file says, checked; None where there is no file.

    `where` is what messages call it, its path without. Raises UnfitError where it does not fit, or
    is a folder, a pipe or a device.
    """
    where = where or path
    try:
        text = read_start(path, most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unfit(where, "cannot be read: %s" % error.strerror) from None
    if text is None:
        raise unfit(where, "is not a plain file")
    return parse(text, kind, where, most)


def recall(path: str, kind: Kind) -> Any:
    """Return what a record says, checked; empty without a record that fits.

    It is for what can be found out again.
    """
    try:
        return load(path, kind) or {}
    except UnfitError:
        return {}


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("a number of %d digits" % len(digits))
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits) if len(digits) <= MOST_DIGITS else math.inf
    if math.isinf(number):
        raise ValueError("the number %s is too large or too long" % digits[:40])
    return number


def _no_constant(word: str) -> float:
    raise ValueError("%s is not a number" % word)
