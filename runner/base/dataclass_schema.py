"""A dataclass as what JSON may hold of it (node/schema.py), by its annotations.

`read(Run, content, where)` is then the one way from a file of a campaign to the noun it holds.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from node.schema import (
    MOST_LETTERS,
    Fields,
    Flag,
    List,
    Mapped,
    Maybe,
    Number,
    OneOf,
    Plain,
    Text,
    Whole,
    unfit,
    value_text,
)

if TYPE_CHECKING:
    from node.schema import Kind

Noun = TypeVar("Noun")


class Written(Text):
    """Text that a file in UTF-8 can hold: JSON may have halves of characters, which none can."""

    def check(self, value: Any, where: str) -> str:
        """Return the text."""
        text = super().check(value, where)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            half = value_text(text[error.start])
            raise unfit(where, f"has {half}, half a character, at {error.start}") from None
        return text


def read(noun: type[Noun], content: Any, where: str = "") -> Noun:
    """Return the instance that a JSON value says. Raises UnfitError naming the field."""
    instance: Noun = shape(cast(Any, noun)).check(content, where)
    return instance


@cache
def shape(noun: Any) -> Fields:
    """Return what JSON may hold of a dataclass, or of a TypedDict.

    `int`, `float`, `bool`, `str`, `list[X]`, `tuple[X, ...]`, `tuple[X, X]`, `Mapping[str, X]`,
    `X | None`, `Literal`, `Any` (bounded) and others are known; `Annotated[X, kind]` says closer.
    A field with a default may be missing; one with a `key` in its metadata is called so in JSON.
    """
    hints = get_type_hints(noun, include_extras=True)
    if is_typeddict(noun):
        return Fields({key: kind_of(hint) for key, hint in hints.items()})
    needed: dict[str, Kind] = {}
    optional: dict[str, tuple[Kind, Any]] = {}
    names = {field.metadata.get("key", field.name): field.name for field in fields(noun)}
    for key, field in zip(names, fields(noun), strict=True):
        kind = kind_of(hints[field.name])
        if field.default is not MISSING:
            optional[key] = (kind, field.default)
        elif field.default_factory is not MISSING:
            optional[key] = (kind, field.default_factory())
        else:
            needed[key] = kind

    def make(**values: Any) -> Any:
        return noun(**{names[key]: value for key, value in values.items()})

    return Fields(needed, optional, make=make)


def kind_of(hint: Any) -> Kind:
    """Return the kind that an annotation means. Raises TypeError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        closer = arguments[1]  # a kind, or text for people
        return cast("Kind", closer) if hasattr(closer, "check") else kind_of(arguments[0])
    if origin in (Union, types.UnionType):
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return Maybe(kind_of(inner))
    if origin is list or (origin is tuple and arguments[1:] == (...,)):
        return List(kind_of(arguments[0]), make=origin)
    if origin is tuple and len(set(arguments)) == 1:
        return List(kind_of(arguments[0]), len(arguments), len(arguments), tuple)
    if origin is Literal:
        return OneOf(*arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Mapped(kind_of(arguments[0]), kind_of(arguments[1]))
    if hint is Any:
        return Plain(lines=True)
    if isinstance(hint, type):
        if hasattr(hint, "check"):
            return cast("Kind", hint)
        if is_dataclass(hint) or is_typeddict(hint):
            return shape(hint)
        if issubclass(hint, Enum):
            return OneOf(*hint)
    simple: dict[Any, Kind] = {
        int: Whole(),
        float: Number(),
        bool: Flag(),
        str: Written(most=MOST_LETTERS, lines=True),
    }
    if hint in simple:
        return simple[hint]
    raise TypeError(f"{hint} says nothing of JSON")
