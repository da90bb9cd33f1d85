"""What a log says beside its steps: a table of a mark, its pattern, and what that sets.

A mark is a long text, so that RE2 finds all of them in one pass over a block: ten times as fast as
Python's own regular expressions. The names of a pattern's groups are what they set: `allocated_mib`
(or `_gib`, `_gb`, of 10^9, or `_bytes`) a peak of memory, `validated` and `validation_loss` an
evaluation, `compiled` and `compile_s` what was compiled; any other name is a fact's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import re2

from runner.logs import overflow, smi
from runner.logs.numbers import number, quantity, whole_number
from runner.terms.memory import MEMORY

REACH = 400  # bytes behind a mark in which its pattern ends
ARGUMENTS = 1 << 15  # bytes in which the arguments that follow log_interval are
MOST_COMPILED = 100  # things, of one log
_NESTED = frozenset({b"dataset index builder", b"compiling"})
_MIB = {"mib": 1.0, "gib": 1024.0, "gb": 1e9 / 2**20, "bytes": 2.0**-20}
_ARGUMENTS_BEGIN = "log_interval " + "." * 20
UTILISATION = "utilisation_percent"


class Fact(NamedTuple):
    """A line that is no step: it has `mark`, and `pattern` around it."""

    mark: bytes
    pattern: re.Pattern[bytes]
    before: int = 0  # bytes before the mark in which its pattern begins
    argument: bool = False  # that Megatron prints behind log_interval

    def found(self, text: bytes, at: int) -> re.Match[bytes] | None:
        """Return what its pattern matches around a mark."""
        if not self.before:
            return self.pattern.match(text, at)
        matches = self.pattern.finditer(text, max(0, at - self.before), at + REACH)
        return next((match for match in matches if match.start() <= at < match.end()), None)


def fact(mark: str, pattern: str, before: int = 0, argument: bool = False) -> Fact:
    """Return a row of the table."""
    return Fact(mark.encode(), re.compile(pattern.encode()), before, argument)


def _argument(name: str, of: str) -> Fact:
    return fact(f" {name} ...", rf" {name} \.{{3,}} (?P<{of}>\d{{1,9}})\s", argument=True)


FACTS = (
    # megatron/utils.py:100-114: `[Rank 0] (after 1 iterations) memory (MB) | allocated: 882.5 | max
    # allocated: 13808.2 | reserved: 14718.0 | max reserved: 14718.0`; v1.1.5 without `[Rank ]` and
    # parentheses. MB is 2^20 bytes.
    fact(
        "memory (MB) | allocated: ",
        r"memory \(MB\) \| allocated: [\d.]+ \| max allocated: (?P<allocated_mib>[\d.]+) \|"
        r"(?: reserved: [\d.]+ \| max reserved: (?P<reserved_mib>[\d.]+)\s)?",
    ),
    # megatron/training.py of b4d4a0e:1098 and e52bdab:1100, at each evaluation; the last one counts
    # ("lm loss PPL: " ends as each step's own "lm loss: ").
    fact(
        "lm loss value: ",
        r"(?:validation loss at iteration {1,9}(?P<validated>\d{1,9})"
        r"(?: on [^|\r\n]{0,60}validation set)? \| )?"
        r"lm loss value: (?P<validation_loss>[^\s|]{1,40}) \|"
        r" lm loss PPL: (?P<perplexity>\d[\d.]{0,40}E[+-]\d{1,3})\s",
        before=160,
    ),
    fact(_ARGUMENTS_BEGIN, r"log_interval \.{20,} (?P<log_interval>\d{1,9})\s"),
    # Another, which ends a run at its multiples (core_v0.13.0 megatron/training/training.py:2170).
    fact("exit_interval " + "." * 20, r"exit_interval \.{20,} (?P<exit_interval>[1-9]\d{0,8})\s"),
    # What follows log_interval among Megatron's arguments, in the order of the alphabet.
    _argument("padded_vocab_size", "padded_vocab_size"),
    _argument("seq_length", "tokens_per_sample"),
    _argument("world_size", "devices"),
    # Primus (fd1eeabb primus/backends/megatron/patches/training_log/print_rank_last_patches.py
    # :424).
    fact(
        "AverageExtension initialized with seq_len: ",
        r"AverageExtension initialized with seq_len: (?P<tokens_per_sample>\d{1,9})"
        r" world_size: (?P<devices>\d{1,9}) ",
    ),
    # Each Megatron prints it with its tokenizer, behind its arguments: megatron/tokenizer/
    # tokenizer.py (v1.1.5 :63, e52bdab :91, b4d4a0e :65, 4efb479d :68), a79272cc
    # pretrain_gpt2.py:610, core_v0.13.0 megatron/training/tokenizer/tokenizer.py:124, core_v0.18.2
    # megatron/training/vocab_utils.py:36.
    fact(
        "> padded vocab (size: ",
        r"> padded vocab \(size: \d+\) with \d+ dummy tokens"
        r" \(new size: (?P<padded_vocab_size>\d{1,9})\)",
    ),
    # LiBai prints its model, whose vocabulary is padded by then (layers/embedding.py of 9fc504c4).
    fact(
        "VocabEmbedding(num_embeddings=",
        r"VocabEmbedding\(num_embeddings=(?P<padded_vocab_size>\d{1,9}),",
    ),
    # What was compiled before the first step, in s: by Megatron (core_v0.13.0 megatron/training/
    # initialize.py:187, :233), by LiBai (9fc504c libai/engine/default.py:134, :142), whose second
    # line holds the first's; DeepSpeed's operators (0.8.0 op_builder/builder.py:507), by all ranks.
    fact(
        ". Compilation time: ",
        r">>> done with (?P<compiled>[a-z ]{1,60})\. Compilation time: (?P<compile_s>[\d.]+)"
        r" seconds\s",
        before=80,
    ),
    fact(
        "Time to load ",
        r"Time to load (?P<compiled>[\w-]{1,60}) op: (?P<compile_s>[\d.]+) seconds\s",
    ),
    # Primus (v26.2 1ec29c67 primus/modules/trainer/megatron/trainer.py:2036-2090; fd1eeabb
    # primus/backends/megatron/patches/training_log/print_rank_last_patches.py:177-206) has what the
    # device has in use, `hip mem usage/free/total/usage_ratio: 227.35GB/..`, where a GB is 2^30
    # bytes, its torchtitan what the allocator reserved, `memory usage/free/total: ..GiB/`.
    fact(
        "usage/free/total",
        r"usage/free/total(?:/usage_ratio: (?P<used_gib>[\d.]{1,20})Gi?B|"
        r": (?P<reserved_gib>[\d.]{1,20})GiB)/",
    ),
    fact("usage/usage_ratio: ", r"usage/usage_ratio: (?P<used_gib>[\d.]{1,20})Gi?B/"),
    # Megatron-Bridge's `memory (GB)` (067f987d src/megatron/bridge/training/utils/
    # train_utils.py:1146, :1200) is of 10^9 bytes.
    *(
        fact(
            f"| mem-max-{of}-gigabytes: ",
            rf"\| mem-max-{of}-gigabytes: (?P<{of}_gb>[\d.]{{1,20}})(?=[ \r\n])",
        )
        for of in ("allocated", "reserved")
    ),
)


@dataclass
class Notes:
    """Gathered block by block. `peaks` are of memory (MEMORY, MiB) and of UTILISATION.

    A figure that is measured is taken in by `settle`, when it is known whether the run that it is
    of is the last one; `at` is where the reader is in its block.
    """

    peaks: dict[str, float] = field(default_factory=dict)
    perplexity: float | None = None
    validation: dict[int, float] = field(default_factory=dict)  # by the iterations before it
    remarks: set[str] = field(default_factory=set)  # what of the log is not in the figures
    facts: dict[str, str] = field(default_factory=dict)
    compiled: dict[bytes, float] = field(default_factory=dict)  # in s, of any rank the longest
    first_step: bytes = b""  # the line of the first step, where its words tell of what system it is
    at: int = 0
    measured: list[tuple[int, str | int, float]] = field(default_factory=list)  # not settled yet
    _devices: smi.Devices = field(default_factory=smi.Devices)

    @property
    def log_interval(self) -> int:
        """Iterations between two logged lines, by the trainer's print of its arguments, or 0."""
        return whole_number(self.facts.get("log_interval")) or 0

    @property
    def compile_s(self) -> float | None:
        """What compiling took in all, by the log's own words."""
        nested = max((self.compiled.get(name, 0.0) for name in _NESTED), default=0.0)
        separate = sum(took for name, took in self.compiled.items() if name not in _NESTED)
        return nested + separate if self.compiled else None

    def scan(self, text: bytes) -> Sequence[tuple[int, bytes]]:
        """Look through whole lines of a log for all of it; return all marks in them."""
        marks = _marks_in(text)
        until: dict[bytes, int] = {}  # of the arguments that are still to come
        for at, mark in marks:
            row = _BY_MARK.get(mark)
            if row is None:
                continue
            if mark == _ARGUMENTS_BEGIN.encode():
                until = {each.mark: at + ARGUMENTS for each in FACTS if each.argument}
            match = row.found(text, at)
            # DeepSpeed prints another world_size: only the first behind log_interval is Megatron's.
            if match and (not row.argument or at < until.pop(mark, 0)):
                self.at = at
                self.take(match.groupdict())
        self._look_at_devices(text)
        return marks

    def take(self, words: Mapping[str, bytes | None]) -> None:
        """Note what the groups of a pattern say, by their names."""
        if (at := whole_number(words.get("validated"))) is not None:
            self.validated(at, number(words["validation_loss"]))
        if of := words.get("compiled"):
            took = quantity(words["compile_s"])
            if took is not None and (of in self.compiled or len(self.compiled) < MOST_COMPILED):
                self.compiled[of] = max(took, self.compiled.get(of, 0.0))
        for name, text in words.items():
            of_memory, _, unit = name.rpartition("_")
            if text is None or name in ("validated", "validation_loss", "compiled", "compile_s"):
                continue
            if name == "perplexity":
                self._measured(name, number(text))
            elif unit in _MIB:
                figure = quantity(text)
                self.peak(f"memory_{of_memory}_mib", figure and figure * _MIB[unit])
            else:
                self.facts[name] = text.decode()

    def peak(self, key: str, figure: float | None) -> None:
        """Note one more figure of memory (MiB); 0 is printed where nothing is counted."""
        self._measured(key, figure or None)

    def validated(self, iteration: int | None, loss: float | None) -> None:
        """Note the loss of an evaluation on validation data after so many iterations."""
        if iteration is not None:
            self._measured(iteration, loss)

    def settle(self, text: bytes, since: int | None) -> None:
        """Take in what was measured in a block; of a run that starts over at `since` no more than
        what comes from there on.
        """
        if since is not None:
            self.peaks, self.validation, self.perplexity = {}, {}, None
            self._look_at_devices(text[since:], since)
        for at, key, value in self.measured:
            if at < (since or 0):
                continue
            if isinstance(key, int):
                self.validation.pop(key, None)
                self.validation[key] = value
            elif key == "perplexity":
                self.perplexity = value
            else:
                self.peaks[key] = max(self.peaks.get(key, 0.0), value)
        self.measured.clear()

    def _measured(self, key: str | int, value: float | None) -> None:
        if value is not None:
            self.measured.append((self.at, key, value))

    def _look_at_devices(self, text: bytes, at: int = 0) -> None:
        self.at = at
        used_mib, busy_percent = self._devices.highest(text)
        self._measured("memory_used_mib", used_mib)
        self._measured(UTILISATION, busy_percent)


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest of those that are there."""
    return max((value for value in values if value is not None), default=None)


def memory_of(logs: Sequence[Notes]) -> dict[str, float | None]:
    """Return the four figures of memory (MEMORY), each of the fullest log."""
    return {key: largest(notes.peaks.get(key) for notes in logs) for key in MEMORY}


_BY_MARK = {row.mark: row for row in FACTS}
_LATIN_1 = re2.Options()
_LATIN_1.encoding = re2.Options.Encoding.LATIN1  # bytes, whatever they are
_MARKS = re2.compile(b"|".join(map(re.escape, (*_BY_MARK, *overflow.MARKS))), _LATIN_1)


@lru_cache(maxsize=2)  # each kind of log line looks at the same text
def _marks_in(text: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return each mark of a text, and where it begins."""
    return tuple((match.start(), match.group()) for match in _MARKS.finditer(text))
