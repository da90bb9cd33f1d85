"""What a log says beside its steps: memory, devices, and the few arguments that parsers need.

All of it is known by long marks, which RE2 finds in one pass over a block: ten times as fast as
Python's own regular expressions.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import re2

from runner.logs import overflow, smi
from runner.logs.decoding import places
from runner.logs.numbers import number, quantity, whole_number
from runner.logs.run_sizes import DEVICES, EXIT_INTERVAL, TOKENS_PER_SAMPLE
from runner.terms.memory import MEMORY

# megatron/utils.py:100-114: `[Rank 0] (after 1 iterations) memory (MB) | allocated: 882.5 | max
# allocated: 13808.2 | reserved: 14718.0 | max reserved: 14718.0`; v1.1.5 without `[Rank ]` and
# parentheses. MB is 2^20 bytes.
_MEMORY_MARK = b"memory (MB) | allocated: "
_MEMORY = re.compile(
    rb"\| allocated: [\d.]+ \| max allocated: ([\d.]+) \|"
    rb"(?: reserved: [\d.]+ \| max reserved: ([\d.]+)\s)?"
)
# megatron/training.py of b4d4a0e:1098 and e52bdab:1100, at each evaluation; the last one counts.
_EVALUATION_MARK = b"lm loss value: "  # "lm loss PPL: " ends as each step's own "lm loss: "
_VALIDATION = re.compile(
    rb"validation loss at iteration {1,9}(\d{1,9})(?: on [^|\r\n]{0,60}validation set)? \| $"
)
_PERPLEXITY = re.compile(
    rb"lm loss value: ([^\s|]{1,40}) \| lm loss PPL: (\d[\d.]{0,40}E[+-]\d{1,3})\s"
)
_ARGUMENT_MARK = b"log_interval " + b"." * 20
_LOG_INTERVAL = re.compile(rb"log_interval \.{20,} (\d{1,9})\s")
# Another one, which ends a run at its multiples (core_v0.13.0 megatron/training/training.py:2170).
_EXIT_MARK = b"exit_interval " + b"." * 20
_EXIT = re.compile(rb"exit_interval \.{20,} ([1-9]\d{0,8})\s")
# What follows it among them, in the order of the alphabet, and the fact that it is.
_ARGUMENTS = {
    b" padded_vocab_size ...": "padded_vocab_size",
    b" seq_length ...": TOKENS_PER_SAMPLE,
    b" world_size ...": DEVICES,
}
_ARGUMENT = re.compile(rb"( \w{1,40} \.{3})\.* (\d{1,9})\s")
# Primus (fd1eeabb primus/backends/megatron/patches/training_log/print_rank_last_patches.py:424).
_PRIMUS_MARK = b"AverageExtension initialized with seq_len: "
_PRIMUS = re.compile(
    rb"AverageExtension initialized with seq_len: (\d{1,9}) world_size: (\d{1,9}) "
)
# Each Megatron prints it with its tokenizer, behind its arguments: megatron/tokenizer/tokenizer.py
# (v1.1.5 :63, e52bdab :91, b4d4a0e :65, 4efb479d :68), a79272cc pretrain_gpt2.py:610, core_v0.13.0
# megatron/training/tokenizer/tokenizer.py:124, core_v0.18.2 megatron/training/vocab_utils.py:36.
_PADDED_MARK = b"> padded vocab (size: "
_PADDED = re.compile(rb"> padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d{1,9})\)")
# LiBai prints its model, whose vocabulary is padded by then (layers/embedding.py of 9fc504c4).
_EMBEDDING_MARK = b"VocabEmbedding(num_embeddings="
_EMBEDDING = re.compile(rb"VocabEmbedding\(num_embeddings=(\d{1,9}),")
# What was compiled before the first step, in s: by Megatron (core_v0.13.0 megatron/training/
# initialize.py:187, :233), by LiBai (9fc504c libai/engine/default.py:134, :142), whose second line
# holds the first's; DeepSpeed's operators (0.8.0 op_builder/builder.py:507), by all ranks at once.
_COMPILED_MARK = b". Compilation time: "
_COMPILED = re.compile(rb">>> done with ([a-z ]{1,60})\. Compilation time: ([\d.]+) seconds\s")
_LOADED_MARK = b"Time to load "
_LOADED = re.compile(rb"Time to load ([\w-]{1,60}) op: ([\d.]+) seconds\s")
# Primus (v26.2 1ec29c67 primus/modules/trainer/megatron/trainer.py:2036-2090; fd1eeabb
# primus/backends/megatron/patches/training_log/print_rank_last_patches.py:177-206) has what the
# device has in use, `hip mem usage/free/total/usage_ratio: 227.35GB/..`, where a GB is 2^30 bytes,
# its torchtitan what the allocator reserved, `memory usage/free/total: ..GiB/`. Megatron-Bridge's
# `memory (GB)` (067f987d src/megatron/bridge/training/utils/train_utils.py:1146, :1200) is of 10^9.
_USAGE_MARKS = b"usage/free/total", b"usage/usage_ratio: "
_IN_USE = re.compile(rb"usage/(?:free/total/)?usage_ratio: ([\d.]{1,20})Gi?B/")
_RESERVED = re.compile(rb"usage/free/total: ([\d.]{1,20})GiB/")
_PEAK_MARKS = b"| mem-max-allocated-gigabytes: ", b"| mem-max-reserved-gigabytes: "
_PEAK = re.compile(rb"\| mem-max-(allocated|reserved)-gigabytes: ([\d.]{1,20})(?=[ \r\n])")
_MIB = 2**20
_NESTED = frozenset({b"dataset index builder", b"compiling"})
COMPILER = 80  # bytes on either side of the mark in which its line says what and how long
MOST_COMPILED = 100  # things, of one log
BEFORE = 160  # bytes before `lm loss value` in which its line says of what it is
ARGUMENTS = 1 << 15  # bytes in which the arguments that follow log_interval stand


@dataclass
class Notes:
    """Gathered block by block; None means that the log does not say. MiB."""

    memory_allocated_mib: float | None = None
    memory_reserved_mib: float | None = None
    memory_rss_mib: float | None = None
    perplexity: float | None = None
    validation: dict[int, float] = field(default_factory=dict)  # by the iterations before it
    remarks: set[str] = field(default_factory=set)  # what of the log is not in the figures
    devices: smi.Devices = field(default_factory=smi.Devices)
    facts: dict[str, str] = field(default_factory=dict)
    compiled: dict[bytes, float] = field(default_factory=dict)  # in s, of any rank the longest
    _awaited: dict[bytes, int] = field(default_factory=dict)  # arguments, until where in the text
    first_step: bytes = b""  # the line of the first step, where its words tell of what system it is

    @property
    def memory_used_mib(self) -> float | None:
        """What the fullest device had in use."""
        return self.devices.memory_used_mib

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

    def forget(self) -> None:
        """Forget what was measured of a run."""
        self.memory_allocated_mib = self.memory_reserved_mib = self.memory_rss_mib = None
        self.perplexity, self.validation, self.devices = None, {}, smi.Devices()

    def allocated(self, mib: float | None) -> None:
        """Note one more figure of what the framework's allocator had given out."""
        self.memory_allocated_mib = _larger(self.memory_allocated_mib, mib)

    def reserved(self, mib: float | None) -> None:
        """Note one more figure of what the framework's allocator had taken from the device."""
        self.memory_reserved_mib = _larger(self.memory_reserved_mib, mib)

    def rss(self, mib: float | None) -> None:
        """Note one more figure of the main memory that a process had (resident set size)."""
        self.memory_rss_mib = _larger(self.memory_rss_mib, mib)

    def used(self, mib: float | None) -> None:
        """Note one more figure of what a device had in use."""
        if mib is not None:
            self.devices.see(mib, None)

    def scan(self, text: bytes) -> Sequence[tuple[int, bytes]]:
        """Look through whole lines of a log for all of it; return all marks in them."""
        marks = _marks_in(text)
        self._awaited.clear()
        for at in places(text, _LOADED_MARK):
            self._compiled(_LOADED.match(text, at))
        for at, mark in marks:
            if reader := _READERS.get(mark):
                reader(self, text, at)
        self.devices.scan(text)
        return marks

    def _evaluation(self, text: bytes, at: int) -> None:
        if match := _PERPLEXITY.match(text, at):
            self.perplexity = number(match[2])
            if of := _VALIDATION.search(text, max(0, at - BEFORE), at):
                self.validated(whole_number(of[1]), number(match[1]))

    def validated(self, iteration: int | None, loss: float | None) -> None:
        """Note the loss of an evaluation on validation data after so many iterations."""
        if iteration is not None and loss is not None:
            self.validation.pop(iteration, None)
            self.validation[iteration] = loss

    def _memory(self, text: bytes, at: int) -> None:
        if match := _MEMORY.match(text, text.index(b"|", at)):
            self.allocated(quantity(match[1]))
            self.reserved(quantity(match[2]))

    def _usage(self, text: bytes, at: int) -> None:
        if match := _IN_USE.match(text, at):
            self.used((quantity(match[1]) or 0.0) * 1024)
        elif match := _RESERVED.match(text, at):
            self.reserved((quantity(match[1]) or 0.0) * 1024)

    def _peak(self, text: bytes, at: int) -> None:
        if match := _PEAK.match(text, at):
            note = self.allocated if match[1] == b"allocated" else self.reserved
            note((quantity(match[2]) or 0.0) * 1e9 / _MIB)

    def _compilation(self, text: bytes, at: int) -> None:
        self._compiled(_COMPILED.search(text, max(0, at - COMPILER), at + COMPILER))

    def _compiled(self, match: re.Match[bytes] | None) -> None:
        took = quantity(match[2]) if match else None
        seen_before = match is not None and match[1] in self.compiled
        if match and took is not None and (seen_before or len(self.compiled) < MOST_COMPILED):
            self.compiled[match[1]] = max(took, self.compiled.get(match[1], 0.0))

    def _padded(self, text: bytes, at: int) -> None:
        if match := _PADDED.match(text, at) or _EMBEDDING.match(text, at):
            self.facts["padded_vocab_size"] = match[1].decode()

    def _log_interval(self, text: bytes, at: int) -> None:
        if match := _LOG_INTERVAL.match(text, at):
            self.facts["log_interval"] = match[1].decode()
        self._awaited = dict.fromkeys(_ARGUMENTS, at + ARGUMENTS)

    def _exit(self, text: bytes, at: int) -> None:
        if match := _EXIT.match(text, at):
            self.facts[EXIT_INTERVAL] = match[1].decode()

    def _argument(self, text: bytes, at: int) -> None:
        match = _ARGUMENT.match(text, at)
        if match and at < self._awaited.pop(match[1], 0):  # DeepSpeed prints another world_size
            self.facts[_ARGUMENTS[match[1]]] = match[2].decode()

    def _primus(self, text: bytes, at: int) -> None:
        if match := _PRIMUS.match(text, at):
            self.facts |= {TOKENS_PER_SAMPLE: match[1].decode(), DEVICES: match[2].decode()}


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest of those that are there."""
    return max((value for value in values if value is not None), default=None)


def memory_of(logs: Sequence[Notes]) -> dict[str, float | None]:
    """Return the four figures of memory (MEMORY), each of the fullest log."""
    return {key: largest(getattr(notes, key) for notes in logs) for key in MEMORY}


def _larger(peak: float | None, mib: float | None) -> float | None:
    return peak if mib is None else max(peak or 0.0, mib)


_READERS: Mapping[bytes, Callable[[Notes, bytes, int], None]] = {
    _MEMORY_MARK: Notes._memory,
    _EVALUATION_MARK: Notes._evaluation,
    **dict.fromkeys(_USAGE_MARKS, Notes._usage),
    **dict.fromkeys(_PEAK_MARKS, Notes._peak),
    _COMPILED_MARK: Notes._compilation,
    **dict.fromkeys((_PADDED_MARK, _EMBEDDING_MARK), Notes._padded),
    _ARGUMENT_MARK: Notes._log_interval,
    _EXIT_MARK: Notes._exit,
    **dict.fromkeys(_ARGUMENTS, Notes._argument),
    _PRIMUS_MARK: Notes._primus,
}
_LATIN_1 = re2.Options()
_LATIN_1.encoding = re2.Options.Encoding.LATIN1  # bytes, whatever they are
_MARKS = re2.compile(b"|".join(map(re.escape, (*_READERS, *overflow.MARKS))), _LATIN_1)


@lru_cache(maxsize=2)  # each kind of log line looks at the same text
def _marks_in(text: bytes) -> tuple[tuple[int, bytes], ...]:
    """Return each mark of a text, and where it begins."""
    return tuple((match.start(), match.group()) for match in _MARKS.finditer(text))
