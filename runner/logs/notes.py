"""What a log says beside its steps: memory, devices, and the few arguments that parsers need.

Searched by long markers, because a long marker lets `bytes.find` skip (3 to 5 GB/s; a short one
1.5 GB/s), once a block.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise

from runner.logs.decoding import places
from runner.logs.known import DEVICES, TOKENS_PER_SAMPLE
from runner.logs.numbers import number, quantity, whole
from runner.logs.smi import Devices

# megatron/utils.py:100-114: `[Rank 0] (after 1 iterations) memory (MB) | allocated: 882.5 | max
# allocated: 13808.2 | reserved: ...`; v1.1.5 without `[Rank ]` and parentheses. MB is 2^20 bytes.
_MEMORY_MARK = b"memory (MB) | allocated: "
_MEMORY = re.compile(rb"\| allocated: [\d.]+ \| max allocated: ([\d.]+) \|")
# megatron/training.py of b4d4a0e:1098 and e52bdab:1100, at each evaluation; the last one counts.
_PERPLEXITY_MARK = b"lm loss PPL: "
_PERPLEXITY = re.compile(rb"lm loss PPL: (\d[\d.]*E[+-]\d+)\s")
_ARGUMENT_MARK = b"log_interval " + b"." * 20
_LOG_INTERVAL = re.compile(rb"log_interval \.{20,} (\d{1,9})\s")
# What follows it among them, in the order of the alphabet, and the fact that it is.
_ARGUMENTS = {
    b" padded_vocab_size ...": "padded_vocab_size",
    b" seq_length ...": TOKENS_PER_SAMPLE,
    b" world_size ...": DEVICES,
}
_ARGUMENT = re.compile(rb" \w{1,40} \.+ (\d{1,9})\s")
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
_NESTED = frozenset({b"dataset index builder", b"compiling"})
COMPILER = 80  # bytes on either side of the mark in which its line says what and how long
MOST_COMPILED = 100  # things, of one log
ARGUMENTS = 1 << 15  # bytes in which the arguments that follow log_interval stand


@dataclass
class Notes:
    """Gathered block by block; None means that the log does not say. MiB."""

    memory_allocated_mib: float | None = None
    perplexity: float | None = None
    devices: Devices = field(default_factory=Devices)
    facts: dict[str, str] = field(default_factory=dict)
    compiled: dict[bytes, float] = field(default_factory=dict)  # in s, of any rank the longest
    first_step: bytes = b""  # the line of the first step, where its words tell of what system it is

    @property
    def memory_used_mib(self) -> float | None:
        """What the fullest device had in use."""
        return self.devices.memory_used_mib

    @property
    def log_interval(self) -> int:
        """Iterations between two logged lines, by the trainer's print of its arguments, or 0."""
        return whole(self.facts.get("log_interval")) or 0

    @property
    def compile_s(self) -> float | None:
        """What compiling took in all, by the log's own words."""
        nested = max((self.compiled.get(name, 0.0) for name in _NESTED), default=0.0)
        other = sum(took for name, took in self.compiled.items() if name not in _NESTED)
        return nested + other if self.compiled else None

    def allocated(self, mib: float | None) -> None:
        """Note one more figure of the framework's peak."""
        if mib is not None:
            self.memory_allocated_mib = max(self.memory_allocated_mib or 0.0, mib)

    def used(self, mib: float) -> None:
        """Note one more figure of what a device had in use."""
        self.devices.see(mib, None)

    def scan(self, text: bytes) -> None:
        """Look through whole lines of a log for all of it."""
        for at in places(text, _MEMORY_MARK):
            self.memory(text, text.index(b"|", at))
        self.arguments(text)
        at = text.find(_EMBEDDING_MARK)
        if at >= 0 and (match := _EMBEDDING.match(text, at)):
            self.facts["padded_vocab_size"] = match[1].decode()
        self.devices.scan(text)
        self.evaluations(text)

    def _compiled(self, match: re.Match[bytes] | None) -> None:
        took = quantity(match[2]) if match else None
        known = match is not None and match[1] in self.compiled
        if match and took is not None and (known or len(self.compiled) < MOST_COMPILED):
            self.compiled[match[1]] = max(took, self.compiled.get(match[1], 0.0))

    def evaluations(self, text: bytes) -> None:
        """Note the perplexity of the last evaluation."""
        for at in places(text, _PERPLEXITY_MARK):
            if match := _PERPLEXITY.match(text, at):
                self.perplexity = number(match[1])

    def memory(self, text: bytes, pipe: int) -> None:
        """Read the memory line whose first pipe stands there."""
        if match := _MEMORY.match(text, pipe):
            self.allocated(quantity(match[1]))

    def arguments(self, text: bytes) -> None:
        """Read what the trainer prints before its first step: arguments, vocabulary, compiling."""
        for at in places(text, _COMPILED_MARK):
            self._compiled(_COMPILED.search(text, max(0, at - COMPILER), at + COMPILER))
        for at in places(text, _LOADED_MARK):
            self._compiled(_LOADED.match(text, at))
        at = text.find(_PADDED_MARK)
        if at >= 0 and (match := _PADDED.match(text, at)):
            self.facts["padded_vocab_size"] = match[1].decode()
        marks = [*places(text, _ARGUMENT_MARK), len(text)]
        for at, following in pairwise(marks):  # what follows the next one is the next one's
            if match := _LOG_INTERVAL.match(text, at):
                self.facts["log_interval"] = match[1].decode()
            for mark, fact in _ARGUMENTS.items():
                place = text.find(mark, at, min(at + ARGUMENTS, following))
                if place >= 0 and (match := _ARGUMENT.match(text, place)):
                    self.facts[fact] = match[1].decode()
        at = text.find(_PRIMUS_MARK)
        if at >= 0 and (match := _PRIMUS.match(text, at)):
            self.facts |= {TOKENS_PER_SAMPLE: match[1].decode(), DEVICES: match[2].decode()}
