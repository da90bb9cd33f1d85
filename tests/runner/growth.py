"""Worst lines for a regular expression, made of its own parts; and how its cost grows on them."""

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import islice
from types import ModuleType
from typing import Any

_parser: Any = re._parser  # type: ignore[attr-defined]  # what a pattern is made of, nowhere else
GENERIC = (" ", "1", "a", "A", "_", ".", ":", "|", "[", "]", "(", "=", "1.", "a.", "| ", "1 ")
LETTERS = "a1 _.-:|A([]=/,\"'\\@x\t%"
SUFFIXES = ("\0", "!")
SAMPLES = 3  # texts that are tried of a class of letters
SHORT, SMALL, LARGE = 400, 4_000, 16_000  # letters
MOST_LINES = 600  # of one pattern; one of more is made of others, each of which is measured,
SOME_LINES = 100  # and is tried on these
QUICK_S = 0.004  # for LARGE; what is quadratic takes fifty times as long
SLOW_S = 0.04  # for SMALL, or less
MOST_EARLY_GROWTH = 30.0  # from SHORT to SMALL: linear is 10, quadratic 100
MOST_GROWTH = 9.0  # from SMALL to LARGE: linear is 4, quadratic 16


def modules_of(package: str) -> Iterator[ModuleType]:
    """Every module of a package, imported; `package` may be a module."""
    home = importlib.import_module(package)
    yield home
    for one in pkgutil.walk_packages(getattr(home, "__path__", []), f"{package}."):
        yield importlib.import_module(one.name)


def patterns_of(module: ModuleType) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Every pattern that a module holds, also inside of its classes and containers, and every
    literal that it hands to a function of `re`.
    """
    for name, item in vars(module).items():
        yield from ((f"{module.__name__}.{name}", found) for found in _inside(item, module, 5))
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call) and _is_of_re(call.func):
            flags = {word.arg: word.value for word in call.keywords}.get("flags")
            try:
                text = ast.literal_eval(call.args[0])
            except ValueError:
                continue
            value = eval(ast.unparse(flags), {"re": re}) if flags else 0
            yield f"{module.__name__}:{call.lineno}", re.compile(text, value)


def _is_of_re(function: ast.expr) -> bool:
    of = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(of, ast.Name) and of.id == "re" and ast.unparse(function) != "re.escape"


def _inside(item: Any, module: ModuleType, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(item, re.Pattern):
        yield item
    elif depth == 0 or isinstance(item, ModuleType):
        return
    elif isinstance(item, list | tuple | set | frozenset):
        for each in item:
            yield from _inside(each, module, depth - 1)
    elif isinstance(item, dict):
        yield from _inside([*item, *item.values()], module, depth - 1)
    elif isinstance(item, type):
        if item.__module__ == module.__name__:
            yield from _inside(list(vars(item).values()), module, depth - 1)
    elif is_dataclass(item):
        yield from _inside([getattr(item, field.name) for field in fields(item)], module, depth - 1)


def worst_lines(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], str]]:
    """Texts of any length that could cost much: what leads to each repetition, and then that
    repetition, the way to it, or something common, again and again, without an end that fits.
    """
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = _parser.parse(text, pattern.flags & ~re.UNICODE)
    seen = set()
    for prefix, samples in [("", [""]), *_repeats(tree, "")]:
        again = [prefix + each for each in ("", " ", *samples[:1])] if prefix else []
        for pump in (*samples, *again, *GENERIC):
            for suffix in SUFFIXES:
                if pump and (prefix, pump, suffix) not in seen:
                    seen.add((prefix, pump, suffix))
                    yield _line(prefix, pump, suffix)


def _line(prefix: str, pump: str, suffix: str) -> Callable[[int], str]:
    return lambda size: prefix + pump * (size // len(pump)) + suffix


def _repeats(tree: Any, prefix: str) -> Iterator[tuple[str, list[str]]]:
    """What leads to each repetition of a pattern, and texts that it repeats."""
    for operation, given in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            _, most, body = given
            if int(most) > 1:
                yield prefix, list(islice(_texts(body), 2 * SAMPLES))
            yield from _repeats(body, prefix)
        elif name == "BRANCH":
            for branch in given[1]:
                yield from _repeats(branch, prefix)
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from _repeats(given[-1] if name == "SUBPATTERN" else given, prefix)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeats(given[1], prefix)
        prefix += next(_texts([(operation, given)]), "")


def _texts(tree: Any) -> Iterator[str]:
    """Some texts that part of a pattern matches."""
    if not list(tree):
        yield ""
        return
    (operation, given), rest = tree[0], list(tree)[1:]
    for first in _part(str(operation), given):
        for other in islice(_texts(rest), SAMPLES):
            yield first + other


def _part(name: str, given: Any) -> Iterator[str]:
    if name == "LITERAL":
        yield chr(given)
    elif name == "NOT_LITERAL":
        yield from [each for each in LETTERS if ord(each) != given][:SAMPLES]
    elif name == "ANY":
        yield from LETTERS[:SAMPLES]
    elif name == "IN":
        yield from [each for each in LETTERS + "eE~?ozt" if _has(given, each)][:SAMPLES] or [
            chr(given[0][1] if str(given[0][0]) == "LITERAL" else given[0][1][0])
        ]
    elif name == "BRANCH":
        for branch in given[1]:
            yield from islice(_texts(branch), 1)
    elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
        yield from _texts(given[-1] if name == "SUBPATTERN" else given)
    elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = given
        for text in islice(_texts(body), SAMPLES):
            yield text * max(int(least), 1)
            if int(most) > 1:
                yield text * (int(least) + 1)
    else:
        yield ""


def _has(members: Any, letter: str) -> bool:
    """Whether a class of letters has one."""
    categories = {"DIGIT": str.isdigit, "SPACE": str.isspace}
    negated, has = False, False
    for operation, given in members:
        name = str(operation)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            has = has or ord(letter) == given
        elif name == "RANGE":
            has = has or given[0] <= ord(letter) <= given[1]
        else:
            kind = str(given).removeprefix("CATEGORY_")
            fits = categories.get(kind.removeprefix("NOT_"), lambda x: x.isalnum() or x == "_")
            has = has or fits(letter) != kind.startswith("NOT_")
    return has != negated


def cost_s(pattern: re.Pattern[Any], text: str, tries: int = 1) -> float:
    """CPU seconds to look through a text in every way that code looks, the least of some tries."""
    line: Any = text.encode("latin-1") if isinstance(pattern.pattern, bytes) else text
    spent = []
    for _ in range(tries):
        began = time.process_time()
        for _ in pattern.finditer(line):
            pass
        pattern.fullmatch(line)
        spent.append(time.process_time() - began)
    return min(spent)


def superlinear(pattern: re.Pattern[Any]) -> str | None:
    """The beginning of a line on which the cost grows faster than its length; None: of none."""
    lines = list(worst_lines(pattern))
    every = len(lines) // SOME_LINES if len(lines) > MOST_LINES else 1
    for line in lines[::every]:
        for size in (20, 26, SHORT):  # what doubles with each letter is found at the first
            if cost_s(pattern, line(size)) > SLOW_S and cost_s(pattern, line(size), 2) > SLOW_S:
                return line(size)[:80]
        if cost_s(pattern, line(SMALL)) > SLOW_S:  # linear, on a slow machine, or to be stopped
            short, small = (cost_s(pattern, line(size), 2) for size in (SHORT, SMALL))
            if small > MOST_EARLY_GROWTH * short:
                return line(SMALL)[:80]
        if cost_s(pattern, line(LARGE)) < QUICK_S:
            continue
        small, large = (cost_s(pattern, line(size), 3) for size in (SMALL, LARGE))
        if large > QUICK_S and large > MOST_GROWTH * small:
            return line(SMALL)[:80]
    return None
