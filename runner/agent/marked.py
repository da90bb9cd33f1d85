"""Texts of logs, matrices and nodes as marked data: an agent must not take them for orders. Pure.

Whatever is not a plain word or a number is put into {"untrusted_text": ...}, wherever it is: also
our own sentences, since they quote others.
"""

import re
from collections.abc import Mapping
from typing import Any

from node.printable import printable

UNTRUSTED = "untrusted_text"
MOST_LETTERS = 2_000
WORD = re.compile(r"[A-Za-z0-9_.:%/+=,@-]{0,60}")


def marked(value: Any) -> Any:
    """Return a document in which each text is marked, except plain words."""
    if isinstance(value, Mapping):
        return {_key(str(name)): marked(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [marked(item) for item in value]
    if not isinstance(value, str) or WORD.fullmatch(value):
        return value
    return {UNTRUSTED: printable(value)[:MOST_LETTERS]}


def _key(name: str) -> str:
    return name if WORD.fullmatch(name) else re.sub(r"[^A-Za-z0-9_.:-]", "_", name)[:60]
