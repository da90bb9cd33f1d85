"""torch_gpt's lines: `torch_gpt step=10/50 ...` and `torch_gpt config ...`, from node rank 0.

`torch_gpt` and then `key=value` words; roles/torch_gpt/files/torch_gpt/train.py documents them.
"""

import re

from node.printable import printable
from runner.logs.batch import LoggedStep
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser
from runner.logs.numbers import number, quantity, whole

LONGEST = 1 << 13  # bytes of a line; a config has some hundred


class TorchGpt(LineParser):
    """A line counts when it is whole: up to its memory, with its line's end."""

    name = "torch_gpt"
    says = "torch_gpt's `torch_gpt step=` lines"
    candidates = (Candidate("torch_gpt"),)
    named = (Candidate("torch_gpt", "the log names torch_gpt", (Sign((b"torch_gpt",)),)),)
    step = rb"torch_gpt step="
    error = rb"torch_gpt error: "
    marker = b"torch_gpt "
    head = re.compile(rb"torch_gpt (config|step=)")

    def row(self, head: re.Match[bytes], rest: bytes, closed: bool) -> LoggedStep | None:
        """Read one step; a `config` line's words become facts."""
        if not closed or len(rest) > LONGEST:
            return None
        text = (head[0] + rest).decode("utf-8", "replace")
        fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
        if head[1] == b"config":
            self.notes.facts |= {key: printable(value) for key, value in fields.items()}
            return None
        match = re.fullmatch(r"([1-9]\d{0,8})/\d{1,9}", fields.get("step", ""), re.ASCII)
        iteration = whole(match[1]) if match else None
        if iteration is None or "memory_used_mib" not in fields:
            return None

        def value(key: str) -> float | None:
            return number(fields.get(key))

        for key in ("memory_allocated_mib", "memory_used_mib"):
            figures = [quantity(word) for word in fields.get(key, "").split(",")]
            peak = max((figure for figure in figures if figure is not None), default=None)
            if key == "memory_allocated_mib":
                self.notes.allocated(peak)
            elif peak is not None:
                self.notes.used(peak)
        return LoggedStep(
            iteration=iteration,
            step_time_ms=value("step_time_ms"),
            samples_per_s=value("samples_per_s"),
            skipped=whole(fields.get("skipped")) or 0,
            nan=whole(fields.get("nan")) or 0,
            loss=value("loss"),
            grad_norm=value("grad_norm"),
        )
