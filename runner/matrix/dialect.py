"""YAML as people write a matrix: YAML 1.2's plain words, no key twice, limits on size. Pure."""

import math
import re
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from node.schema import SAFE
from runner.base.errors import UserError
from runner.base.files import read_text
from runner.base.yaml_limits import YamlLimits, check_limits, problem_of

MOST_BYTES = 1 << 20  # of a matrix file, or one that it names
MOST_SLOW = 1 << 16  # letters that are read once more, for a better sentence on what is wrong
LIMITS = YamlLimits(values=100_000, levels=20)
_TAG = "tag:yaml.org,2002:"


class _Dialect(SafeConstructor, Resolver):
    """What reads plain words as people do, and refuses a key given twice.

    PyYAML speaks YAML 1.1: `on` and `no` are truth values, 010 is eight, 1:30 is ninety, 3e-4 is
    text. Here, as in YAML 1.2, only true, false, null and decimal numbers mean more than text.
    A key that stands twice would silently keep its last value.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == f"{_TAG}merge":
                continue
            key = self.construct_object(key_node)
            if key in keys:
                raise UserError(f"the key {key!r} is given twice in the mapping at {_line(node)}")
            keys.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_number(self, node: Any) -> int | float:
        """Build a number that a figure can be: finite, and of 64 bits if it is whole."""
        written = str(self.construct_scalar(node))
        number = math.inf
        if node.tag.endswith("float"):
            number = self.construct_yaml_float(node)
        elif len(written) < 21:
            number = self.construct_yaml_int(node)
        if not abs(number) < (math.inf if isinstance(number, float) else SAFE):
            raise UserError(f"{written[:40]!r} at {_line(node)} is too large for a number")
        return number

    def construct_text(self, node: Any) -> str:
        """Build text that can be written again."""
        text = str(self.construct_scalar(node))
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UserError(f"{text!r} at {_line(node)} cannot be written as UTF-8") from None
        return text

    def construct_other(self, node: Any) -> None:
        """Refuse dates, sets, bytes and objects, which only a tag can make."""
        raise UserError(f"unsupported YAML tag {node.tag!r} at {_line(node)}; remove it")


def _line(node: Any) -> str:
    return f"line {node.start_mark.line + 1}"


_Dialect.yaml_implicit_resolvers = {}
for _kind, _spellings, _first_letters in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"0|-?[1-9][0-9]*", list("-0123456789")),
    (
        "float",
        r"[-+]?(([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
):
    _Dialect.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_spellings})$"), _first_letters)
_Dialect.yaml_constructors = {
    **{
        _TAG + kind: SafeConstructor.yaml_constructors[_TAG + kind]
        for kind in ("null", "bool", "seq", "map")
    },
    _TAG + "str": _Dialect.construct_text,
    _TAG + "int": _Dialect.construct_number,
    _TAG + "float": _Dialect.construct_number,
    None: _Dialect.construct_other,
}


class _Loader(_Dialect, yaml.SafeLoader):
    """PyYAML's own parser."""


class _FastLoader(_Dialect, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's parser where this Python has it, which is ten times as fast, and less lenient."""


def read_file(path: Path, description: str) -> str:
    """Return the text of a matrix file, or one beside it. Raises UserError."""
    return read_text(path, MOST_BYTES, description)


def read_yaml(text: str, where: str) -> Any:
    """Read YAML as people write it (see _Dialect). Raises UserError naming the line."""
    try:
        try:
            return _read(text, _FastLoader)
        except yaml.YAMLError:
            if len(text) > MOST_SLOW:
                raise
            return _read(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" at line {mark.line + 1}" if mark else ""
        raise UserError(f"{where} is not valid YAML{line}: {problem_of(error)}") from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except (yaml.YAMLError, ValueError, LookupError, ArithmeticError) as error:  # of a tagged word
        problem = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{where} is not valid YAML: {problem}") from None


def _read(text: str, loader: Any) -> Any:
    check_limits(text, LIMITS, loader)
    return yaml.load(text, Loader=loader)  # noqa: S506  # a safe one
