"""YAML as people write a matrix: YAML 1.2's plain words, no key twice, limits on size. Pure."""

import re
from typing import Any

import yaml

from runner.base.errors import UserError

MAX_DEPTH = 20  # of mappings and lists in a matrix file
MAX_VALUES = 1_000_000
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """SafeLoader that reads plain words as people do, and refuses a key given twice.

    PyYAML speaks YAML 1.1: `on` and `no` are truth values, 010 is eight, 1:30 is ninety, 3e-4 is
    text. Here, as in YAML 1.2, only true, false, null and decimal numbers mean more than text.
    A key that stands twice would silently keep its last value.
    """

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [
            self.construct_object(key, deep=True)
            for key, _ in node.value
            if key.tag != f"{_TAG}merge"
        ]
        for key in keys:
            if keys.count(key) > 1:
                line = node.start_mark.line + 1
                raise UserError(f"the key {key!r} is given twice in the mapping at line {line}")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.yaml_implicit_resolvers = {}
for _kind, _words, _first in (
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
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_words})$"), _first)


def read_yaml(text: str, where: str) -> Any:
    """Read YAML as people write it (see _Loader). Raises UserError naming the line."""
    try:
        content = yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" at line {mark.line + 1}" if mark else ""
        raise UserError(f"{where} is not valid YAML{line}: {error.problem}") from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    except RecursionError:
        raise UserError(f"{where} nests too deeply for a matrix") from None
    except Exception as error:  # a constructor of an explicit tag may raise anything
        problem = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{where} is not valid YAML: {problem}") from None
    _check_plain(content, where)
    return content


def _check_plain(content: Any, where: str) -> None:
    """Refuse all but mappings, lists, text and numbers, and what has no end (aliases can be
    cyclic).
    """
    seen, waiting = 0, [(content, 0)]
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_VALUES:
            raise UserError(f"{where} nests too deeply, or holds too much, for a matrix")
        if isinstance(value, dict):
            waiting += [(item, depth + 1) for pair in value.items() for item in pair]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]
        elif not isinstance(value, str | int | float | None):
            raise UserError(f"{where}: {value!r} is neither text nor a number; drop its tag")
        elif isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise UserError(f"{where}: {value!r} cannot be written as UTF-8") from None
