"""torch_gpt's lines `torch_gpt step=10/50 ...`, `config` and `start`, from node rank 0.

`torch_gpt` and then `key=value` words; roles/torch_gpt/files/torch_gpt/train.py documents them.
Of a `start` line first_step_s is not used: it counts from the start of one process; our own figure
(docs/measures.md) counts from that of the launcher, of every system alike.
"""

import re
from collections.abc import Mapping

from node.printable import printable
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import is_lost, number, quantity, whole_number
from runner.logs.run_sizes import (
    ATTENTION,
    COMPILE_CACHE,
    DROP_RATE,
    EXPERT_IMBALANCE,
    TOKENS_PER_EXPERT,
)

_FIELD = re.compile(rb"(?<!\S)([^\s=]*)=(\S*)")
_STEP = re.compile(rb"([1-9]\d{0,8})/\d{1,9}")
_STARTED = (ATTENTION.encode(), COMPILE_CACHE.encode(), b"gradient_reduction")
_WORD = re.compile(rb"[a-z_,]{1,40}")
_COMPILER = b"torch.compile"
LONGEST = 1 << 13  # bytes of a line; a config has some hundred


class TorchGpt(LineParser):
    """A line counts when it is whole: up to its memory, with its line's end."""

    name = "torch_gpt"
    says = "torch_gpt's `torch_gpt step=` lines"
    candidates = (Candidate("torch_gpt"),)
    gives = (
        *("step_time_ms", "samples_per_s", "loss", "grad_norm", "skipped", "train_iters"),
        *("memory_allocated_mib", "memory_reserved_mib", "memory_used_mib", "memory_rss_mib"),
    )
    mentions = (Candidate("torch_gpt", "the log names torch_gpt", (Sign((b"torch_gpt",)),)),)
    loss_kind = "window"
    holds = "the mean since the line before; it evaluates behind the last one"
    step = rb"torch_gpt step="
    counter = rb"torch_gpt step=(\d{1,9})/"
    error = rb"torch_gpt error: "
    marker = b"torch_gpt "
    head = re.compile(rb"torch_gpt (config|start|eval|step=)")

    def __init__(self) -> None:
        super().__init__()
        self._last_iteration: int | None = None

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one step; a `config` line's words become facts, and what of `start` is one."""
        if not closed or len(tail) > LONGEST:
            return None
        fields = dict(_FIELD.findall(head[0] + tail))
        if head[1] == b"eval":
            self.notes.validated(self._last_iteration, number(fields.get(b"loss")))
            return None
        if head[1] != b"step=":
            self._facts(fields, started=head[1] == b"start")
            return None
        match = _STEP.fullmatch(fields.get(b"step", b""))
        iteration = whole_number(match[1]) if match else None
        if iteration is None or b"memory_used_mib" not in fields:
            return None
        self._memory(fields)
        self._experts(fields)
        self._last_iteration = iteration
        return LoggedStep(
            iteration=iteration,
            step_time_ms=number(fields.get(b"step_time_ms")),
            samples_per_s=number(fields.get(b"samples_per_s")),
            skipped=whole_number(fields.get(b"skipped")) or 0,
            nan=max(whole_number(fields.get(b"nan")) or 0, int(is_lost(fields.get(b"loss")))),
            loss=number(fields.get(b"loss")),
            grad_norm=number(fields.get(b"grad_norm")),
            paused_ms=quantity(fields.get(b"paused_ms")) or 0.0,
        )

    def _memory(self, fields: Mapping[bytes, bytes]) -> None:
        """Note the peaks; before `memory_rss_mib` existed a CPU's process was logged as a device,
        and such a line has nothing allocated.
        """
        allocated, used = fields.get(b"memory_allocated_mib", b""), fields[b"memory_used_mib"]
        of_process = b"memory_rss_mib" not in fields and allocated[:1] == b"-"
        self.notes.allocated(_peak(allocated))
        self.notes.reserved(_peak(fields.get(b"memory_reserved_mib", b"")))
        self.notes.used(None if of_process else _peak(used))
        self.notes.rss(_peak(used if of_process else fields.get(b"memory_rss_mib", b"")))

    def _experts(self, fields: Mapping[bytes, bytes]) -> None:
        """Note how the experts were loaded; of fewest, mean and most tokens the mean."""
        tokens = fields.get(b"tokens_per_expert", b"").split(b",")
        figures = {
            TOKENS_PER_EXPERT: tokens[1] if len(tokens) == 3 else None,
            EXPERT_IMBALANCE: fields.get(b"expert_imbalance"),
            DROP_RATE: fields.get(b"drop_rate"),
        }
        for name, text in figures.items():
            if text is not None and number(text) is not None:
                self.notes.facts[name] = text.decode()

    def _facts(self, fields: Mapping[bytes, bytes], *, started: bool) -> None:
        """Note a line's words; of how it started only those that are facts, and what it took."""
        for key, value in fields.items():
            if not started or (key in _STARTED and _WORD.fullmatch(value)):
                word, text = (field.decode("utf-8", "replace") for field in (key, value))
                self.notes.facts[word] = printable(text)
        took = quantity(fields.get(b"compile_s"))
        if started and whole_number(fields.get(b"compiled")) and took is not None:
            self.notes.compiled[_COMPILER] = took


def _peak(devices: bytes) -> float | None:
    """Return the largest of the devices' figures."""
    if b"," not in devices:
        return quantity(devices)
    figures = map(quantity, devices.split(b","))
    return max((figure for figure in figures if figure is not None), default=None)
