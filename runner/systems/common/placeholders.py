"""Words in braces of a text: `--lr {lr}` with values in their place. Pure; no shell, no template.

`{{` and `}}` are braces themselves. A value is put in as it is: braces in it mean nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runner.base.errors import UserError
from runner.base.suggest import nearest

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]|[^{}]+")


def pieces(text: str, where: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is a word's name.

    Raises UserError for a brace that is not closed, or holds no name.
    """
    for match in _PIECE.finditer(text):
        if match[1]:
            yield match[1], True
        elif match[0] in ("{", "}"):
            excerpt = text[match.start() : match.start() + 30]
            raise UserError(
                f"{where}: {excerpt!r} begins with a brace that stands alone; a word is written"
                " {name}, and a brace itself {{ or }}"
                if match[0] == "{"
                else f"{where}: {text[-60:]!r} has a closing brace that stands alone; write }}}}"
                " for a brace itself"
            )
        else:
            yield match[0].replace("{{", "{").replace("}}", "}"), False


def names_in(text: str, where: str) -> set[str]:
    """Return the words of a text. Raises UserError as `pieces` does."""
    return {piece for piece, is_name in pieces(text, where) if is_name}


def looks_like(text: str) -> set[str]:
    """Return what would be words, of a text that may hold any other braces."""
    return {match[1] for match in _PIECE.finditer(text) if match[1]}


def all_names(argv: Iterable[Any]) -> set[str]:
    """Return the words of all arguments. Raises UserError as `pieces` does."""
    name_sets = (names_in(written(text), f"argv[{number}]") for number, text in enumerate(argv))
    return set().union(*name_sets)


def filled(text: str, values: Mapping[str, Any], where: str) -> str:
    """Return the text with values in place of its words. Raises UserError naming the nearest."""
    parts = []
    for piece, is_name in pieces(text, where):
        value = value_of(piece, values, where) if is_name else piece
        if isinstance(value, list):
            raise UserError(
                f"{where}: {piece} is a list, and {{{piece}}} is part of {text!r:.60}; make it an"
                f" argument of argv by itself, or give {piece} one value"
            )
        parts.append(written(value))
    return "".join(parts)


def arguments(text: str, values: Mapping[str, Any], where: str) -> list[str]:
    """Return what one argument becomes: itself, filled; several, or none, where it is a word alone
    whose value is a list.
    """
    word = re.fullmatch(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", text)
    value = value_of(word[1], values, where) if word else None
    if isinstance(value, list):
        return [written(item) for item in value]
    return [filled(text, values, where)]


def value_of(name: str, values: Mapping[str, Any], where: str) -> Any:
    """Return the value of a word. Raises UserError naming the nearest one, and all of them."""
    value = values.get(name)
    if value is None:
        raise UserError(
            f"{where}: {{{name}}} is neither a fact of the node nor a key of the matrix"
            f"{nearest(name, values)}; there are {', '.join(sorted(values))}"
        )
    return value


def written(value: Any) -> str:
    """Write a value as one argument has it: numbers as YAML had them, true and false in small."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return str(value)


def product(value: Any, values: Mapping[str, Any], where: str) -> float | None:
    """Return a number, or the product that a text says: `micro_batch_size * data_parallel * 4`.

    None where nothing is given. Raises UserError naming the factor that is not a number.
    """
    if value is None:
        return None
    factors = value.split("*") if isinstance(value, str) else [value]
    result: float = 1
    for factor in factors:
        word = factor.strip() if isinstance(factor, str) else factor
        is_name = isinstance(word, str) and NAME.fullmatch(word)
        number = value_of(word, values, where) if is_name else word
        try:
            figure = None if isinstance(number, bool) else float(number)
        except (TypeError, ValueError, OverflowError):
            figure = None
        if figure is None or not 0 < figure < 1e18:
            raise UserError(
                f"{where} is {value!r}, and {word!r} is not a number above 0; write a number, or"
                " numbers and keys, without braces, with * between them"
            )
        result *= int(figure) if figure.is_integer() else figure
    if not 0 < result < 1e18:
        raise UserError(f"{where} is {value!r}, which makes {result:g}; no run has so many")
    return result


def factors(value: Any) -> set[str]:
    """Return the names in a product."""
    operands = value.split("*") if isinstance(value, str) else []
    return {word.strip() for word in operands if NAME.fullmatch(word.strip())}
