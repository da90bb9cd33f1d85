"""Worst lines for a regular expression, made of its own parts; and how its steps grow on them."""

import ast
import importlib
import inspect
import math
import pkgutil
import re
import sys
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
SMALL, LARGE = 60, 240  # letters
BOUND = 8  # a bound, however large, is a bound: repeats of up to 8 or more are counted up to 8
MOST_LINES = 600  # of one pattern; one of more is made of others, each of which is measured,
SOME_LINES = 100  # and is tried on these
MOST_STEPS = 100_000
MOST_GROWTH = 8.0  # from SMALL to LARGE: linear is 4, quadratic 16


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
    seen = set()
    for prefix, samples in [("", [""]), *_repeats(_tree(pattern), "")]:
        again = [prefix + each for each in ("", " ", *samples[:1])] if prefix else []
        for pump in (*samples, *again, *GENERIC):
            for suffix in SUFFIXES:
                if pump and (prefix, pump, suffix) not in seen:
                    seen.add((prefix, pump, suffix))
                    yield _line(prefix, pump, suffix)


def _tree(pattern: re.Pattern[Any]) -> Any:
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    return _parser.parse(text, pattern.flags & ~re.UNICODE)


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


Then = Callable[[int], bool]
Matcher = Callable[[int, Then], bool]


class EnoughError(Exception):
    """More steps than are counted."""


class Steps:
    """How many steps a pattern takes to look through a text, as `re` does it: by going back."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.text, self.count = "", 0
        self.flags = pattern.flags
        self._groups: dict[int, tuple[int, int]] = {}
        self._match = self._sequence(_tree(pattern))

    def of(self, text: str) -> float:
        """Of all that finditer finds; infinity: more than are counted."""
        self.text, self.count = text, 0
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(1_000_000)
        try:
            return self._look()
        except EnoughError:
            return math.inf
        finally:
            sys.setrecursionlimit(before)

    def _look(self) -> int:
        at = 0
        while at <= len(self.text):
            self._step()
            end = _end(self._match, at)
            at = at + 1 if end is None else max(at + 1, end)
        return self.count

    def _step(self) -> None:
        self.count += 1
        if self.count > MOST_STEPS:
            raise EnoughError

    def _sequence(self, tree: Any) -> Matcher:
        parts = [self._part(str(operation), given) for operation, given in tree]

        def match(at: int, then: Then, number: int = 0) -> bool:
            if number == len(parts):
                return then(at)
            return parts[number](at, lambda end: match(end, then, number + 1))

        return match

    def _part(self, name: str, given: Any) -> Matcher:
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            fits = self._letter(name, given)
            return lambda at, then: fits(at) and then(at + 1)
        if name == "AT":
            return self._place(str(given))
        if name == "BRANCH":
            branches = [self._sequence(branch) for branch in given[1]]
            return lambda at, then: any(branch(at, then) for branch in branches)
        if name in ("ASSERT", "ASSERT_NOT"):
            return self._look_around(name == "ASSERT", *given)
        if name == "SUBPATTERN":
            return self._group(given[0], self._sequence(given[-1]))
        if name == "GROUPREF":
            return lambda at, then: self._again(given, at, then)
        if name == "ATOMIC_GROUP":
            return self._atomic(self._sequence(given))
        least, most = (min(int(bound), BOUND) for bound in given[:2])
        if given[1] is _parser.MAXREPEAT:
            most = sys.maxsize
        repeat = self._repeat(least, most, given[2], lazy=name == "MIN_REPEAT")
        return self._atomic(repeat) if name == "POSSESSIVE_REPEAT" else repeat

    def _letter(self, name: str, given: Any) -> Callable[[int], bool]:
        members = {
            "LITERAL": [("LITERAL", given)],
            "NOT_LITERAL": [("NEGATE", None), ("LITERAL", given)],
            "ANY": [("NEGATE", None)] + [("LITERAL", 10)] * (not self.flags & re.DOTALL),
            "IN": given,
        }[name]
        ignore = self.flags & re.IGNORECASE
        known: dict[str, bool] = {}

        def fits(at: int) -> bool:
            self._step()
            if at >= len(self.text):
                return False
            letter = self.text[at]
            if letter not in known:
                forms = {letter, letter.swapcase()} if ignore else {letter}
                known[letter] = any(_has(members, form) for form in forms)
            return known[letter]

        return fits

    def _place(self, name: str) -> Matcher:
        lines = bool(self.flags & re.MULTILINE)

        def word(at: int) -> bool:
            return 0 <= at < len(self.text) and (self.text[at].isalnum() or self.text[at] == "_")

        def here(at: int) -> bool:
            text = self.text
            if name.startswith("AT_BEGINNING"):
                return at == 0 or (lines and name == "AT_BEGINNING" and text[at - 1] == "\n")
            if name.startswith("AT_END"):
                last = text[at:] in ("", "\n") if name == "AT_END" else at == len(text)
                return last or (lines and name == "AT_END" and text[at] == "\n")
            return (word(at - 1) != word(at)) == (name == "AT_BOUNDARY")

        return lambda at, then: here(at) and then(at)

    def _look_around(self, wanted: bool, way: int, body: Any) -> Matcher:
        match, back = self._sequence(body), body.getwidth()[0] if way < 0 else 0

        def look(at: int, then: Then) -> bool:
            found = at >= back and match(at - back, lambda end: way > 0 or end == at)
            return found == wanted and then(at)

        return look

    def _group(self, number: int | None, body: Matcher) -> Matcher:
        def match(at: int, then: Then) -> bool:
            def closed(end: int) -> bool:
                if number is not None:
                    self._groups[number] = at, end
                return then(end)

            return body(at, closed)

        return match

    def _again(self, group: int, at: int, then: Then) -> bool:
        begin, end = self._groups.get(group, (0, 0))
        self._step()
        return self.text.startswith(self.text[begin:end], at) and then(at + end - begin)

    def _atomic(self, body: Matcher) -> Matcher:
        def match(at: int, then: Then) -> bool:
            end = _end(body, at)
            return end is not None and then(end)

        return match

    def _repeat(self, least: int, most: int, body: Any, *, lazy: bool) -> Matcher:
        match = self._sequence(body)

        def repeat(at: int, then: Then, times: int = 0, before: int = -1) -> bool:
            def more() -> bool:
                return (
                    times < most
                    and at != before
                    and match(at, lambda end: repeat(end, then, times + 1, at))
                )

            def on() -> bool:
                return times >= least and then(at)

            self._step()
            return (on() or more()) if lazy else (more() or on())

        return repeat


def _end(match: Matcher, at: int) -> int | None:
    """Where the first match ends."""
    ends: list[int] = []

    def keep(end: int) -> bool:
        ends.append(end)
        return True

    return ends[0] if match(at, keep) else None


def superlinear(pattern: re.Pattern[Any]) -> str | None:
    """The beginning of a line on which the steps grow faster than its length; None: of none."""
    steps = Steps(pattern)
    lines = list(worst_lines(pattern))
    every = len(lines) // SOME_LINES if len(lines) > MOST_LINES else 1
    for line in lines[::every]:
        small, large = (steps.of(line(size)) for size in (SMALL, LARGE))
        if large > MOST_GROWTH * small or small == math.inf:
            return line(SMALL)[:80]
    return None
