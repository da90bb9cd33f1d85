"""Whether YAML is small once it is read: a kilobyte of aliases and merges can be a terabyte. Pure.

Events are counted one by one, before anything is built of them.
"""

from dataclasses import dataclass
from typing import Any

import yaml

from runner.base.errors import UserError

TAB = "YAML does not allow a tab here; indent with spaces"
# What PyYAML says of a mistake, as problem and context, and what a person does about it.
_PLAIN = {
    ("expected ',' or ']'", ""): "the list that begins with [{at} has no ]",
    ("expected ',' or '}'", ""): "the mapping that begins with {{{at} has no }}",
    ("unexpected end of stream", "quoted"): "the quote that opens{at} is not closed",
    ("<block end>", ""): "this line is indented otherwise than the part{at} that it belongs to",
    ("mapping values are not allowed", ""): (
        "a `:` is not allowed here; put text that holds `: ` in quotes, and begin a mapping on a"
        " new line"
    ),
    ("found undefined alias", ""): (
        "*{quoted} repeats what is marked &{quoted}, and nothing is; put text that begins with * in"
        " quotes"
    ),
    ("cannot start any token", ""): "text that begins so needs quotes",
    ("could not find expected ':'", ""): "a line without `:`; write KEY: VALUE",
}
FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class YamlLimits:
    """The most of a document: `values` of all kinds, those of an alias each time it stands
    somewhere, and `levels` of mappings and lists within each other.
    """

    values: int
    levels: int


def problem_of(error: yaml.MarkedYAMLError) -> str:
    """Say what is wrong where a parser stopped; of a tab, which no reader sees, with its cure."""
    problem, context = str(error.problem), str(error.context)
    if "'\\t'" in problem:
        return TAB
    at = f" at line {error.context_mark.line + 1}" if error.context_mark else ""
    for (of_problem, of_context), sentence in _PLAIN.items():
        if of_problem in problem and of_context in context:
            return sentence.format(at=at, quoted=problem.rpartition(" alias ")[2].strip("'"))
    return problem


class _Counter:
    """Values and levels of a document so far, aliases put in place."""

    def __init__(self) -> None:
        self.values = 0
        self.levels = 0
        self._open: list[tuple[str | None, int, int]] = []  # anchor, values before, levels inside
        self._anchors: dict[str | None, tuple[int, int]] = {}  # values, levels

    def count(self, event: yaml.Event) -> None:
        """Count one event. Raises UserError for an alias inside of what it stands for."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self.values, 0))
            self._add(1, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, inside = self._open.pop()
            self._anchors[anchor] = (self.values - before, inside + 1)
            self._add(0, inside + 1)
        elif isinstance(event, yaml.ScalarEvent):
            self._anchors[event.anchor] = (1, 0)
            self._add(1, 0)
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _, _ in self._open):
                raise UserError(f"it nests too deeply: {event.anchor!r} is in itself")
            self._add(*self._anchors.get(event.anchor, (1, 0)))

    def _add(self, values: int, levels: int) -> None:
        self.values += values
        self.levels = len(self._open) + levels
        if self._open:
            anchor, before, inside = self._open[-1]
            self._open[-1] = (anchor, before, max(inside, levels))


def check_limits(text: str, limits: YamlLimits, loader: Any = FastLoader) -> None:
    """Raise UserError for YAML that is more than the limits once its aliases are put in place.

    Raises what yaml raises for text that is not YAML. `loader` has the parser.
    """
    counter = _Counter()
    too_much = UserError(
        f"it nests too deeply, or holds too much: {limits.levels} levels and"
        f" {limits.values} values are the most, an alias counted as all that it stands for"
    )
    try:
        for event in yaml.parse(text, Loader=loader):
            counter.count(event)
            if counter.values > limits.values or counter.levels > limits.levels:
                raise too_much
    except yaml.MarkedYAMLError as error:
        if "maximum nesting depth" in str(error.problem):  # libyaml's own limit, since PyYAML 6.0.4
            raise too_much from None
        raise
