"""LLaMA-Factory's trainer_log.jsonl: an object a log step, and one an evaluation.

    {"current_steps": 10, "total_steps": 60, "loss": 1.52, "lr": 5e-05, "epoch": 0.5, "percentage":
    16.67, "elapsed_time": "0:00:21", "remaining_time": "0:01:45", "throughput": 1930.1,
    "total_tokens": 40960}

(one line; ff6d4d12 src/llamafactory/train/callbacks.py:282-310.) What misleads:

* `throughput` is total_tokens over all the time since the training began, printed only with
  `include_num_input_tokens_seen`. What a line's own time is follows from two of each;
* without those `elapsed_time` has whole seconds: a line has a time where they are enough for it to
  be known within 5 %.
"""

import json
import re
from typing import Any

from runner.logs.kind import Candidate
from runner.logs.lines import LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import finite, number, quantity_of, whole_number
from runner.logs.run_sizes import TRAIN_ITERS

PRECISE_S = 20  # of whole seconds, so that one is 5 %
_CLOCK = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,2}):(\d\d):(\d\d)", re.ASCII)


class LlamaFactory(LineParser):
    """Objects of a file of its own."""

    name = "llama_factory"
    says = "LLaMA-Factory's objects of trainer_log.jsonl"
    candidates = (Candidate("command"),)
    loss_kind = "window"
    holds = "the mean since the line before, or an earlier one, with all that came between"
    step = rb'\{"current_steps": \d{1,9}, "total_steps": \d{1,9}, "loss": '
    marker = b'{"current_steps": '
    head = re.compile(rb'^[^{}]*(\{"current_steps": .*\})\s*$')
    _before = (0, 0.0, 0.0)  # step, seconds, tokens of the last line with a time

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one object, whole or not at all; an evaluation's is not a step."""
        try:
            content = json.loads(head[1], parse_int=number, parse_float=number)
        except (ValueError, RecursionError):  # the latter of brackets within brackets
            return None
        step, total = (_whole_number(content.get(key)) for key in ("current_steps", "total_steps"))
        if not step:
            return None
        if total:
            self.notes.facts[TRAIN_ITERS] = str(total)
        if "loss" not in content:
            self.notes.validated(step, _figure(content.get("eval_loss")))
            return None
        loss = _figure(content["loss"])
        row = LoggedStep(step, loss=loss, nan=int(loss is None))
        self._time(row, content)
        return row

    def _time(self, row: LoggedStep, content: dict[str, Any]) -> None:
        tokens, rate = (_figure(content.get(key)) or 0.0 for key in ("total_tokens", "throughput"))
        clock = _CLOCK.fullmatch(str(content.get("elapsed_time", "")))
        if tokens > 0 and rate > 0:
            seconds, enough = tokens / rate, 0.0
        elif clock:
            parts = [whole_number(digits) or 0 for digits in clock.groups()]
            seconds, enough = (
                ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60.0 + parts[3],
                PRECISE_S,
            )
        else:
            return
        step, before, counted = self._before
        if row.iteration <= step:  # another run
            self._before = (row.iteration, seconds, tokens)
            return
        if seconds - before <= enough:
            return
        self._before = (row.iteration, seconds, tokens)
        row.step_time_ms = quantity_of((seconds - before) * 1000 / (row.iteration - step))
        row.tokens_per_s = quantity_of((tokens - counted) / (seconds - before)) or None


def _whole_number(value: object) -> int | None:
    integral = isinstance(value, float) and 0 <= value < 1e9 and value == int(value)
    return int(value) if integral and isinstance(value, float) else None


def _figure(value: object) -> float | None:
    return finite(value) if isinstance(value, float) else None
