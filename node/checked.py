"""Text from outside that becomes a path, a line of ssh's or a variable: each a type of its own.

An instance cannot be made of text that does not fit, so a function that takes one needs no check of
its own. The classes are kinds of node/schema.py as well.
"""

from __future__ import annotations

import re

from node.schema import shown, unfit

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeVar

    Self = TypeVar("Self", bound="Checked")


class Checked(str):
    """Text that fits `pattern`, whole, in at most `most` letters. Raises UnfitError."""

    pattern: ClassVar[str]
    most: ClassVar[int] = 255
    what: ClassVar[str]

    __slots__ = ()

    def __new__(cls, text: Any, where: str = "") -> Checked:
        """Check the text."""
        if isinstance(text, str) and len(text) <= cls.most and re.fullmatch(cls.pattern, text):
            return str.__new__(cls, text)
        raise unfit(where, "is %s; it must be %s" % (shown(text), cls.what))

    @classmethod
    def check(cls: type[Self], value: Any, where: str) -> Self:
        """Return the value as an instance. Raises UnfitError."""
        made: Self = cls(value, where)
        return made

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "string", "maxLength": cls.most, "pattern": "^(?:%s)$" % cls.pattern}


class HostName(Checked):
    """A node's name in the inventory: one part of a path, and no option of a program."""

    pattern = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
    what = "a node's name of letters, digits, '.', '_' and '-'"


class Address(Checked):
    """An IPv4 or IPv6 address, or a name of the network's."""

    pattern = r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?"
    what = "an address or a name of the network's"


class FileName(Checked):
    """One part of a path: neither `.` nor `..`, without slash or control character."""

    pattern = r"(?!\.\.?$)[^/\x00-\x1f\x7f-\x9f]+"
    what = "a file's name, without a slash"


class InsidePath(Checked):
    """A path below a folder: parts with a slash between, none of them empty, `.` or `..`."""

    pattern = r"(?!/)(?:(?!\.\.?(?:/|$))[^/\x00-\x1f\x7f-\x9f]+(?:/(?!$)|$))+"
    most = 1_000
    what = "a path inside its folder, without '..'"


class VariableName(Checked):
    """A name of an environment variable, as a shell takes it."""

    pattern = r"[A-Za-z_][A-Za-z0-9_]*"
    what = "a variable's name of letters, digits and '_'"


class Sha256(Checked):
    """A checksum: 64 hex digits, small."""

    pattern = r"[0-9a-f]{64}"
    what = "a SHA-256 of 64 hex digits"
