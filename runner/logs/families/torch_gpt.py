"""torch_gpt's lines `torch_gpt step=10/50 ...`, `config` and `start`, from node rank 0.

`torch_gpt` and then `key=value` words; roles/torch_gpt/files/torch_gpt/train.py documents them.
Of a `start` line first_step_s is not used: it counts from the start of one process; our own figure
(docs/measures.md) counts from that of the launcher, of every system alike.
"""

import re
from collections.abc import Mapping

from node.printable import printable
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser, named
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
_NAMES = {
    name.encode(): name
    for name in ("step_time_ms", "samples_per_s", "skipped", "loss", "grad_norm")
}
LONGEST = 1 << 13  # bytes of a line; a config has some hundred


class TorchGpt(LineParser):
    """A line counts when it is whole: up to its memory, with its line's end."""

    name = "torch_gpt"
    says = "torch_gpt's `torch_gpt step=` lines"
    candidates = (Candidate("torch_gpt"),)
    mentions = (Candidate("torch_gpt", "the log names torch_gpt", (Sign((b"torch_gpt",)),)),)
    loss_kind = "window"
    holds = "the mean since the line before; it evaluates behind the last one"
    step = rb"torch_gpt step="
    counter = rb"torch_gpt step=(\d{1,9})/"
    error = rb"torch_gpt error: "
    marker = b"torch_gpt "
    head = re.compile(rb"torch_gpt (config|start|eval|step=)")
    read = staticmethod(number)
    _last_iteration: int | None = None

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
        iteration = _STEP.fullmatch(fields.get(b"step", b""))
        if iteration is None or b"memory_used_mib" not in fields:
            return None
        self._memory(fields)
        self._experts(fields)
        step = self.step_of({"iteration": iteration[1], **named(_NAMES, fields)})
        if step:
            self._last_iteration = step.iteration
            step.nan = max(whole_number(fields.get(b"nan")) or 0, int(is_lost(fields.get(b"loss"))))
            step.paused_ms = quantity(fields.get(b"paused_ms")) or 0.0
        return step

    def _memory(self, fields: Mapping[bytes, bytes]) -> None:
        """Note the peaks; before `memory_rss_mib` existed a CPU's process was logged as a device,
        and such a line has nothing allocated.
        """
        figures = {
            key: fields.get(f"memory_{key}_mib".encode(), b"")
            for key in ("allocated", "reserved", "used", "rss")
        }
        if b"memory_rss_mib" not in fields and figures["allocated"][:1] == b"-":
            figures["rss"], figures["used"] = figures["used"], b""
        for key, devices in figures.items():
            for each in devices.split(b","):
                self.notes.peak(f"memory_{key}_mib", quantity(each))

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
