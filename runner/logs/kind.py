"""Describe one kind of step lines: how to read it, which systems print it, what ends a run."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.logs.log_metadata import Notes
from runner.logs.logged_step import LoggedStep
from runner.logs.overflow import Overflows
from runner.terms.record import LossKind

# What lines may contain beside the iteration, with a name for people: the fields of a LoggedStep,
# memory, and the sizes in `known.py`.
GIVES: Mapping[str, str] = {
    "step_time_ms": "step time",
    "samples_per_s": "samples/s",
    "tokens_per_s": "tokens/s",
    "device_tokens_per_s": "tokens/s of a device",
    "global_batch": "batch size",
    "loss": "loss",
    "grad_norm": "norm",
    "skipped": "skipped",
    "memory_allocated_mib": "allocated",
    "memory_reserved_mib": "reserved",
    "memory_used_mib": "used",
    "memory_rss_mib": "RSS",
    "tflop_per_s": "TFLOP/s",
    "energy_j": "energy",
    "tokens_per_sample": "tokens per sample",
    "devices": "devices",
    "train_iters": "iterations in all",
}


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

    `says` names the lines for people. `candidates` lists the systems that print them: the first
    that fits is the log's. `mentions` is the same for a log without any step. Of the regular
    expressions `step` is the part of a line that shows that a step was logged, `error` begins a
    line by which the trainer itself says why it ends, `success` is on one after which nothing is
    a failure;
    `counter` has the number of an iteration as its one group, for Python's `re` on a node.
    `own_rate` is False for lines printed beside a trainer's own lines, whose samples/s may be
    wrong; `from_zero` is for lines that count iterations from 0. `gives` names what the lines (or
    what the trainer prints beside them) say, in words of GIVES; `works_out` what the parser works
    out of something else on them, and `out_of` from what. Recorded logs hold both to it.
    `loss_kind` names what a line's loss is the mean of, by the trainer's source, `holds` says what
    its time is of and whether evaluations and checkpoints are in it ("" of lines without a time),
    `untimed` why lines have none that the counted steps alone make, with the cure,
    `validates` what the figure of its evaluations is.
    """

    name: str
    says: str
    candidates: tuple[Candidate, ...]
    mentions: tuple[Candidate, ...] = ()
    step: bytes = b""
    counter: bytes = b""
    error: bytes = b""
    success: bytes = b""
    own_rate: bool = True
    from_zero: bool = False
    gives: tuple[str, ...] = ()
    works_out: tuple[str, ...] = ()
    out_of: str = ""
    loss_kind: LossKind = ""
    holds: str = ""
    untimed: str = ""
    validates: str = "validation loss"

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

    def forget(self) -> None:
        """Forget what was measured: a run starts over. What the log says of its sizes stays."""
        self.notes.forget()
        self.overflows.forget()

    @abstractmethod
    def feed(self, text: bytes) -> list[LoggedStep]:
        """Return the steps in whole lines of a log."""


# The kinds to try on a log, by name, best first; each value makes a parser for one log.
Readers = Mapping[str, Callable[[], Kind]]
