"""Text from outside that becomes a path, a line of ssh's or a variable: each a type of its own.

An instance cannot be made of text that does not fit, so a function that takes one needs no check of
its own. The classes are kinds of node/schema.py as well.
"""

from __future__ import annotations

import re

from node.schema import unfit, value_text

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeVar

    Self = TypeVar("Self", bound="Checked")

# Halves of surrogate pairs are in no name that a file can have.
PART = r"[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]+"


class Checked(str):
    """Text that fits `pattern`, whole, in at most `most` letters. Raises UnfitError."""

    pattern: ClassVar[str]
    most: ClassVar[int] = 255
    description: ClassVar[str]

    __slots__ = ()

    def __new__(cls, text: Any, where: str = "") -> Checked:
        """Check the text."""
        if isinstance(text, str) and len(text) <= cls.most and re.fullmatch(cls.pattern, text):
            return str.__new__(cls, text)
        raise unfit(where, "is %s; it must be %s" % (value_text(text), cls.description))

    @classmethod
    def check(cls: type[Self], value: Any, where: str) -> Self:
        """Return the value as an instance. Raises UnfitError."""
        checked: Self = cls(value, where)
        return checked

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "string", "maxLength": cls.most, "pattern": "^(?:%s)$" % cls.pattern}


class HostName(Checked):
    """A node's name in the inventory: one part of a path, and no option of a program."""

    pattern = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
    description = "a node's name of letters, digits, '.', '_' and '-'"


class Address(Checked):
    """An IPv4 or IPv6 address, or a name of the network's."""

    pattern = r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?"
    description = "an IP address or the name of a host"


class CellId(Checked):
    """The name of a cell's folder: what it sets, made safe, and a hash of all that runs."""

    pattern = r"[A-Za-z0-9_=+,-][A-Za-z0-9._=+,-]*"
    description = "a cell's folder, of letters, digits and '._=+,-'"


class FileName(Checked):
    """One part of a path: neither `.` nor `..`, without slash or control character."""

    pattern = rf"(?!\.\.?$){PART}"
    description = "a file's name, without a slash"


class InsidePath(Checked):
    """A path below a folder: parts with a slash between, none of them empty, `.` or `..`."""

    pattern = rf"(?!/)(?:(?!\.\.?(?:/|$)){PART}(?:/(?!$)|$))+"
    most = 1_000
    description = "a path inside its folder, without '..'"


class VariableName(Checked):
    """A name of an environment variable, as a shell takes it."""

    pattern = r"[A-Za-z_][A-Za-z0-9_]*"
    description = "a variable's name of letters, digits and '_'"


class Sha256(Checked):
    """A checksum: 64 hex digits, small."""

    pattern = r"[0-9a-f]{64}"
    description = "a SHA-256 of 64 hex digits"


class WheelName(FileName):
    """The file of a wheel."""

    pattern = r"[A-Za-z0-9][A-Za-z0-9._+-]*\.whl"
    description = "the name of a wheel's file"


class Pin(Checked):
    """A package of exactly one version, as a line of pip's: no address, no option."""

    pattern = r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*"
    description = "an exact pin, name==version"
