"""What something from outside may be: each field's type, range, length and pattern, once.

Everything that a node, a log, an archive or a file of a campaign says passes `check` (of JSON text
by node/parsing.py) before any other code sees it; programs on nodes that take from another node,
too. What does not fit is a `UnfitError` of one sentence. Each kind also writes itself as JSON
schema.

A kind is anything with `check(value, where)` and `json_schema()`; the classes of
node/validated_text.py, whose instances are text that fits, are kinds too.
"""

from __future__ import annotations

import re

from node.answer import ProgramError
from node.printable import printable

TYPE_CHECKING = False  # as typing's, whose import would cost each message
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Protocol

    class Kind(Protocol):
        """What a value may be."""

        def check(self, value: Any, where: str) -> Any:
            """Return the value as it may be used. Raises UnfitError."""

        def json_schema(self) -> dict[str, Any]:
            """Return the same as JSON schema."""


MOST_DEPTH = 64  # lists and mappings within each other
MOST_ITEMS = 100_000  # of one list or mapping
MOST_LETTERS = 1_000_000  # of one text
SAFE = 2**63  # a whole number beyond it fits no table


class UnfitError(ProgramError, ValueError):
    """What is wrong with what came from outside: one sentence, printable; a program's own, too."""


def unfit(where: str, fault: str) -> UnfitError:
    """Return the error that says what is wrong, and where."""
    return UnfitError("%s %s" % (printable(where)[-200:].rstrip(":") or "the answer", fault))


def value_text(value: Any) -> str:
    """Return a value as a sentence may hold it: short, and printable."""
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "a mapping"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return ascii(value[:60])
    return printable(str(value))[:60] if not isinstance(value, int) or abs(value) < SAFE else "huge"


class Text:
    """Text of at most `most` letters; without control characters, unless it has `lines`."""

    def __init__(self, pattern: str = "", most: int = 10_000, lines: bool = False) -> None:
        self.pattern = re.compile(pattern) if pattern else None
        self.most = most
        self.lines = lines

    def check(self, value: Any, where: str) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise unfit(where, "is %s; it must be text" % value_text(value))
        if len(value) > self.most:
            raise unfit(
                where, "has %d characters; at most %d are allowed" % (len(value), self.most)
            )
        if not self.lines and not value.isprintable():
            raise unfit(where, "is %s; control characters are not allowed" % value_text(value))
        if self.pattern is not None and not self.pattern.fullmatch(value):
            raise unfit(
                where, "is %s; it does not match %s" % (value_text(value), self.pattern.pattern)
            )
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        pattern = {"pattern": "^(?:%s)$" % self.pattern.pattern} if self.pattern else {}
        return {"type": "string", "maxLength": self.most, **pattern}


class Words:
    """A sentence for people: what it has of control characters is left out, and what is too long.

    None is the empty one.
    """

    def __init__(self, most: int = 2_000) -> None:
        self.most = most

    def check(self, value: Any, where: str) -> str:
        """Return the words, printable."""
        if value is not None and not isinstance(value, str):
            raise unfit(where, "is %s; it must be text" % value_text(value))
        return printable((value or "")[: 4 * self.most])[: self.most].rstrip()

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": ["string", "null"]}


class Whole:
    """A whole number of `least` to `most`; true and false are not numbers."""

    def __init__(self, least: int = 0, most: int = SAFE) -> None:
        self.least, self.most = least, most

    def check(self, value: Any, where: str) -> int:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise unfit(where, "is %s; it must be a whole number" % value_text(value))
        if not self.least <= value <= self.most:
            raise unfit(
                where, "is %s; it must be %d to %d" % (value_text(value), self.least, self.most)
            )
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


class Number:
    """A finite number of `least` to `most`, as float."""

    def __init__(self, least: float = -1e300, most: float = 1e300) -> None:
        self.least, self.most = least, most

    def check(self, value: Any, where: str) -> float:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise unfit(where, "is %s; it must be a number" % value_text(value))
        if not self.least <= value <= self.most:  # false of NaN, too
            raise unfit(
                where, "is %s; it must be %g to %g" % (value_text(value), self.least, self.most)
            )
        return float(value)

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "number", "minimum": self.least, "maximum": self.most}


class Flag:
    """True or false."""

    def check(self, value: Any, where: str) -> bool:
        """Return it."""
        if not isinstance(value, bool):
            raise unfit(where, "is %s; it must be true or false" % value_text(value))
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "boolean"}


class OneOf:
    """One of these texts, numbers, flags or None."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def check(self, value: Any, where: str) -> Any:
        """Return the value; of an enumeration its member."""
        for option in self.values:
            if value == option and isinstance(value, bool) == isinstance(option, bool):
                return option
        may = ", ".join(value_text(option) for option in self.values)
        raise unfit(where, "is %s; it must be one of %s" % (value_text(value), may))

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"enum": list(self.values)}


class Maybe:
    """A kind, or None."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, where: str) -> Any:
        """Return the value, or None."""
        return None if value is None else self.kind.check(value, where)

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"anyOf": [self.kind.json_schema(), {"type": "null"}]}


class List:
    """A list of at most `most` of one kind, and of at least `least`; as what `make` makes of it."""

    def __init__(
        self,
        kind: Kind,
        most: int = MOST_ITEMS,
        least: int = 0,
        make: Callable[[list[Any]], Any] = list,
    ) -> None:
        self.kind, self.most, self.least, self.make = kind, most, least, make

    def check(self, value: Any, where: str) -> Any:
        """Return the list, each item checked."""
        if not isinstance(value, (list, tuple)):
            raise unfit(where, "is %s; it must be a list" % value_text(value))
        if not self.least <= len(value) <= self.most:
            raise unfit(
                where, "has %d items; it may have %d to %d" % (len(value), self.least, self.most)
            )
        return self.make([self.kind.check(v, "%s[%d]" % (where, i)) for i, v in enumerate(value)])

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        limits = {"minItems": self.least, "maxItems": self.most}
        return {"type": "array", "items": self.kind.json_schema(), **limits}


class Row:
    """A list of these kinds, in their order."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    def check(self, value: Any, where: str) -> list[Any]:
        """Return the list, each item checked."""
        if not isinstance(value, (list, tuple)) or len(value) != len(self.kinds):
            raise unfit(
                where, "is %s; it must be a list of %d items" % (value_text(value), len(self.kinds))
            )
        return [
            kind.check(v, "%s[%d]" % (where, i))
            for i, (kind, v) in enumerate(zip(self.kinds, value))  # Python 3.8
        ]

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"type": "array", "prefixItems": [kind.json_schema() for kind in self.kinds]}


class Mapped:
    """A mapping of at most `most` names of one kind to values of another."""

    def __init__(self, name: Kind, kind: Kind, most: int = MOST_ITEMS) -> None:
        self.name, self.kind, self.most = name, kind, most

    def check(self, value: Any, where: str) -> dict[Any, Any]:
        """Return the mapping, each name and value checked."""
        if not isinstance(value, dict):
            raise unfit(where, "is %s; it must be a mapping" % value_text(value))
        if len(value) > self.most:
            raise unfit(where, "has %d names, more than %d" % (len(value), self.most))
        names = "a name of %s" % (where or "the answer")
        return {
            self.name.check(name, names): self.kind.check(element, _at(where, name))
            for name, element in value.items()
        }

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        limits = {"propertyNames": self.name.json_schema(), "maxProperties": self.most}
        return {"type": "object", "additionalProperties": self.kind.json_schema(), **limits}


class Fields:
    """A mapping with these names: `needed`, and `optional` with what they are where they are not.

    What else it has is left out, so that no code sees it: another version's. `make` makes of the
    fields, as keywords, what is returned; a mapping, unless it is given.
    """

    def __init__(
        self,
        needed: Mapping[str, Kind],
        optional: Mapping[str, tuple[Kind, Any]] | None = None,
        make: Callable[..., Any] = dict,
    ) -> None:
        self.needed, self.optional, self.make = needed, optional or {}, make

    def check(self, value: Any, where: str) -> Any:
        """Return the fields, each checked."""
        if not isinstance(value, dict):
            raise unfit(where, "is %s; it must be a mapping" % value_text(value))
        fields = {}
        for name, kind in self.needed.items():
            if name not in value:
                raise unfit(where, "has no %s" % name)
            fields[name] = kind.check(value[name], _at(where, name))
        for name, (kind, default) in self.optional.items():
            is_given = name in value
            fields[name] = kind.check(value[name], _at(where, name)) if is_given else default
        return self.make(**fields)

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        kinds = {**self.needed, **{name: kind for name, (kind, _) in self.optional.items()}}
        return {
            "type": "object",
            "properties": {name: kind.json_schema() for name, kind in kinds.items()},
            "required": list(self.needed),
        }


class AnyOf:
    """The first of these kinds that the value fits."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    def check(self, value: Any, where: str) -> Any:
        """Return what the first kind makes of the value."""
        why = None
        for kind in self.kinds:
            try:
                return kind.check(value, where)
            except UnfitError as error:
                why = error
        raise why or unfit(where, "may be nothing")

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {"anyOf": [kind.json_schema() for kind in self.kinds]}


class Plain:
    """Any JSON, bounded: depth, items, and texts without control characters unless `lines`."""

    def __init__(self, depth: int = 8, most: int = 10_000, lines: bool = False) -> None:
        self.depth, self.most = depth, most
        self.text = Text(most=MOST_LETTERS, lines=lines)
        self.inner = Plain(depth - 1, most, lines) if depth else self

    def check(self, value: Any, where: str) -> Any:
        """Return the value, each part of it checked."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return (Whole(-SAFE) if isinstance(value, int) else Number()).check(value, where)
        if isinstance(value, str):
            return self.text.check(value, where)
        if self.depth == 0:
            raise unfit(where, "is nested too deep")
        if isinstance(value, dict):
            return Mapped(self.text, self.inner, self.most).check(value, where)
        return List(self.inner, self.most).check(value, where)

    def json_schema(self) -> dict[str, Any]:
        """Return the same as JSON schema."""
        return {}


def _at(where: str, name: Any) -> str:
    """Return where a mapping's value stands: `run.json: nodes[0].env`."""
    name = name if isinstance(name, str) and name.isidentifier() else "[%s]" % value_text(name)
    if where.endswith(":"):
        return "%s %s" % (where, name)
    return where + name if not where or name[:1] == "[" else "%s.%s" % (where, name)
