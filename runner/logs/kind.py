"""Describe one kind of step lines: how to read it, which systems print it, what ends a run."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.logs.log_metadata import Notes
from runner.logs.logged_step import LoggedStep
from runner.logs.overflow import Overflows
from runner.terms.record import LossKind


@dataclass(frozen=True)
class Sign:
    """A feature of a log: it has one of `texts` (lower case), or a line that `line` matches."""

    texts: tuple[bytes, ...]
    line: re.Pattern[bytes] | None = None

    def stands_in(self, small: bytes) -> bool:
        """Return whether a part of a log, in lower case, has the feature."""
        present = any(word in small for word in self.texts)
        return present or bool(self.line and self.line.search(small))


@dataclass(frozen=True)
class Candidate:
    """A system that may have printed a log: one with every sign of `by` and none of `without`.

    `why` explains that to people, after the name of the lines.
    """

    system: str
    why: str = ""
    by: tuple[Sign, ...] = ()
    without: tuple[Sign, ...] = ()

    def fits(self, signs: set[Sign]) -> bool:
        """Return whether a log with these signs is of the system."""
        return signs.issuperset(self.by) and signs.isdisjoint(self.without)


class Kind(ABC):
    """One kind of step lines; an object reads whole lines of one log, block by block.

    Of the regular expressions `step` is the part of a line that shows that a step was logged,
    `error` begins a line by which the trainer itself says why it ends, `success` is on one after
    which nothing is a failure; `counter` has the number of an iteration as its one group, for
    Python's `re` on a node.
    """

    name: str
    says: str  # names the lines for people
    candidates: tuple[Candidate, ...]  # systems that print them: the first that fits is the log's
    mentions: tuple[Candidate, ...] = ()  # the same for a log without any step
    step: bytes = b""
    counter: bytes = b""
    error: bytes = b""
    success: bytes = b""
    own_rate: bool = True  # False: printed beside a trainer's own lines, maybe with a wrong rate
    from_zero: bool = False  # whether the lines count iterations from 0
    loss_kind: LossKind = ""  # what a line's loss is the mean of, by the trainer's source
    holds: str = ""  # what its time is of, with evaluations and checkpoints or without
    untimed: str = ""  # why lines may have no time of the counted steps alone, with the cure
    validates: str = ""  # what the figure of its evaluations is, where it is no validation loss

    def __init__(self) -> None:
        self.notes = Notes()
        self.overflows = Overflows()

    @classmethod
    def family(cls) -> str:
        """Return the name of its family: its module in runner/logs/families."""
        return cls.__module__.rpartition(".")[2]

    @classmethod
    def systems(cls) -> tuple[str, ...]:
        """Return the systems that print these lines."""
        return tuple(dict.fromkeys(candidate.system for candidate in cls.candidates))

    @property
    def missing(self) -> Mapping[str, str]:
        """What its patterns did not find, with the reason; empty for built-in kinds."""
        return {}

    @abstractmethod
    def feed(self, text: bytes) -> list[LoggedStep]:
        """Return the steps in whole lines of a log. What was measured beside them is in the notes
        when these are settled.
        """


# The kinds to try on a log, by name, best first; each value makes a parser for one log.
Readers = Mapping[str, Callable[[], Kind]]
