"""Kinds of which the answers of several programs are made. The control node's: none is sent."""

from __future__ import annotations

from node.printable import printable
from node.schema import AnyOf, Fields, Mapped, OneOf, Text, Words
from node.validated_text import Sha256

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Mapping

    from node.schema import Kind

ABSENT = object()  # what a field is that an answer may lack


class Line(Text):
    """A fact in one line, as it is; only what a terminal would obey is left out of it."""

    def check(self, value: Any, where: str) -> str:
        """Return the line, printable."""
        if isinstance(value, str) and not value.isprintable():
            value = printable(value)
        return super().check(value, where)


def present(**fields: Any) -> dict[str, Any]:
    """Return the fields that an answer had, in the order in which programs write them."""
    return {name: fields[name] for name in sorted(fields) if fields[name] is not ABSENT}


def having(needed: Mapping[str, Kind], optional_kinds: Mapping[str, Kind] | None = None) -> Fields:
    """Return the kind of a mapping with `needed`, and `optional_kinds` where it has them."""
    optional = {name: (kind, ABSENT) for name, kind in (optional_kinds or {}).items()}
    return Fields(needed, optional, make=present)


# What the fingerprints of folders were made of: a path to the start of a checksum, or a word.
FILES = Mapped(Text(most=4096), Text(most=64), most=5_000)
RELIED_FILES = Mapped(Text(most=4096), FILES, most=1_000)
# What node/fingerprint.py says of a folder or a Python.
FINGERPRINT = having(
    {},
    {
        "commit": Text(r"[0-9a-f]{40}|[0-9a-f]{64}"),
        "edits": AnyOf(OneOf(""), Sha256),
        "checksum": Sha256,
        "python": Text(r"[0-9A-Za-z.+]{1,40}"),
        "packages": Sha256,
        "problem": Words(),
    },
)
