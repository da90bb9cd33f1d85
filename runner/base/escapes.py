"""Text that goes out, each kind a type of its own that cannot be made without its escape.

| for | type | where it goes out |
| --- | --- | --- |
| a terminal | `TerminalText`, `TerminalLine` | `base/streams.py`, `base/console.py` |
| a shell, by a person | `ShellWord` | `report/details.py` |
| a person who decides what runs | `ExactLine`, `ExactWord` | `plan/dryrun.py` |
| Markdown | `MarkdownText` | `tables/text.py` |
| CSV | `CsvCell` | `tables/text.py` |
| HTML, SVG | `markupsafe.Markup` | `report/page.py`, whose templates escape all else |
| JSON | `json_text` | its strings hold anything, as escapes |
| XML | `ElementTree`, given what `printable` returned | `compare/rendering.py` |

Given an instance, a type returns it as it is, so that nothing is escaped twice. Ruff (T20, TID251,
S701, S704) and tests/runner/base/test_escapes.py find what goes around them.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping
from typing import Any, Self

from node.printable import uncontrolled


class _Escaped(str):
    """Text that has passed `escape`."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Escape the text, except an instance's."""
        return text if isinstance(text, cls) else str.__new__(cls, cls.escape(text))

    @staticmethod
    def escape(text: str) -> str:
        """Return what may go out of it."""
        raise NotImplementedError


def _without_surrogates(text: str) -> str:
    """Put `?` for half a character, as of a path that is not UTF-8."""
    return text.encode("utf-8", "replace").decode()


class TerminalText(_Escaped):
    """Lines of printable characters: nothing that a terminal obeys, and no order but as written.

    A whole page may pass, so nothing is left out, which could be the page's own.
    """

    __slots__ = ()

    @staticmethod
    def escape(text: str) -> str:
        """Put a space for each character that is not printable, except line breaks."""
        if all(map(str.isprintable, text.split("\n"))):
            return text
        return "".join(
            c if c.isprintable() or c == "\n" else " " for c in _without_surrogates(text)
        )


class TerminalLine(TerminalText):
    """One such line: what is put into it begins no line of its own."""

    __slots__ = ()

    @staticmethod
    def escape(text: str) -> str:
        """Leave out escapes, and put a space for each other character that is not printable."""
        return text if text.isprintable() else uncontrolled(_without_surrogates(text))


class ShellWord(_Escaped):
    """A word of a command that a person reads and pastes into bash; printable, on one line."""

    __slots__ = ()

    @staticmethod
    def escape(text: str) -> str:
        """Quote the word, as $'...' where it holds what is not printable."""
        if text.isprintable():
            return shlex.quote(text)
        quoted = _without_surrogates(text).replace("\\", r"\\").replace("'", r"\'")
        letters = (
            c if c.isprintable() else "".join(f"\\x{byte:02x}" for byte in c.encode())
            for c in quoted
        )
        return f"$'{''.join(letters)}'"


def _spelled(text: str) -> str:
    """Quote text as $'...' in which each character but plain ASCII is an escape of its number."""
    letters = (
        c
        if " " <= c <= "~"
        else f"\\x{ord(c):02x}"
        if c < "\x80"
        else f"\\u{ord(c):04x}"
        if c <= "\uffff"
        else f"\\U{ord(c):08x}"
        for c in text.replace("\\", r"\\").replace("'", r"\'")
    )
    return f"$'{''.join(letters)}'"


class ExactLine(_Escaped):
    """A line of which a person sees every character: nothing is left out, hidden or reordered.

    What is not plain ASCII is $'...' with escapes; so is text that itself begins like that.
    """

    __slots__ = ()

    @staticmethod
    def escape(text: str) -> str:
        """Return plain ASCII as it is, all else spelled."""
        plain = text.isascii() and text.isprintable() and not text.startswith("$'")
        return text if plain else _spelled(text)


class ExactWord(_Escaped):
    """One word of a command, shown as `ExactLine` and quoted as bash reads it."""

    __slots__ = ()

    @staticmethod
    def escape(text: str) -> str:
        """Quote plain ASCII where it needs that; spell all else."""
        return shlex.quote(text) if text.isascii() and text.isprintable() else _spelled(text)


class MarkdownText(_Escaped):
    """One line that Markdown shows as it is: no link, image, HTML, code, table or list of its own.

    An underscore inside a word is not a sign of Markdown.
    """

    __slots__ = ()
    _SIGNS = re.compile(r"([\\`*|<>\[\]~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
    _BEGINNING = re.compile(r"\A(\s*\d*)([-+=#]+|(?<=\d)[.)])(?=\s|$)")  # of a list, title or rule

    @classmethod
    def escape(cls, text: str) -> str:
        """Put a backslash before each sign of Markdown's."""
        escaped = cls._SIGNS.sub(r"\\\1", uncontrolled(text))
        return cls._BEGINNING.sub(r"\1\\\2", escaped, count=1) if escaped else escaped


class CsvCell(_Escaped):
    """One line that a spreadsheet takes for text, or for a number.

    What it would take for a formula gets an apostrophe in front, as OWASP advises; behind `;`, too,
    which some locales have between two cells.
    """

    __slots__ = ()
    _NUMBER = re.compile(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?")
    # The last four are wide ones, which spreadsheets of East Asian locales take for the same.
    _FORMULA = re.compile(r"(?:^|(?<=;))(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")

    @classmethod
    def escape(cls, text: str) -> str:
        """Put an apostrophe where a formula would begin; a number stays one."""
        plain = uncontrolled(text)
        return plain if cls._NUMBER.fullmatch(plain) else cls._FORMULA.sub("'", plain)


def json_text(document: Any, indent: int = 2) -> str:
    """Write JSON in which each character that is not printable is an escape of JSON's."""
    text = json.dumps(plain(document), indent=indent, ensure_ascii=False, allow_nan=False)
    return text if TerminalText(text) == text else _UNPRINTABLE.sub(_as_json, text)


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: not a number becomes None, an unknown type its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


_UNPRINTABLE = re.compile(r"[^\n\w!-~ ]")  # few of these are none, but each is asked


def _as_json(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]
