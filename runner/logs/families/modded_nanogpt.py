"""modded-nanogpt: `step:1390/1770 train_time:137000ms step_avg:98.56ms`, by rank 0.

f411b3d train_gpt.py:2369, and at validations `step:1375/1770 val_loss:3.3 train_time:..` (:2342).
Until December 2024 its lines had the `train_loss:`; track 3 prints `train_time:22.870s` (records/
track_3_optimization/train_gpt_simple.py), and into its files the validations alone. What misleads:

* train_time is cumulative: a line's own time is the difference to the line before, over the steps
  between. Evaluations stop the clock (:2329, :2346), so that it holds none;
* until January 2025 the clock was set back at step 10 (2024-10-14_ModernArch's log, its line 431):
  where train_time falls, the line has no time here. `step_avg` leaves those steps out;
* a line without train_loss is printed before its step's work is waited for: the host runs ahead by
  about one step, which the next validation's train_time shows. What follows is counted from that;
* a validation is not a step of its own, unless no line says that step: then the steps since the
  last are its window. `val_loss` is not the training's loss.
"""

import re
from dataclasses import dataclass

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import PRINTED, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, quantity, whole_number
from runner.logs.run_sizes import TRAIN_ITERS

_TRAIN_LOSS = re.compile(rb"^train_loss:" + PRINTED + rb" ", re.IGNORECASE)
_VALIDATION = re.compile(rb"^val_loss:" + PRINTED + rb" ", re.IGNORECASE)
_PEAK_MARK = b"peak memory "
_PEAK = re.compile(
    rb"peak memory (?:allocated|consumption): (\d{1,9}) MiB(?: reserved: (\d{1,9}) MiB)?\s"
)
_TIME = re.compile(rb"(?:^| )train_time:([\d.]+)(m?s) ")


@dataclass
class _Clock:
    """Where the last line stood, and what the clock said (ms)."""

    step: int = 0
    total_ms: float = 0.0


class ModdedNanoGpt(LineParser):
    """Lines of steps and of validations."""

    name = "modded_nanogpt"
    says = "modded-nanogpt's `step:N/M train_time:` lines"
    candidates = (Candidate("command"),)
    mentions = (
        Candidate("command", "the log has modded-nanogpt's words", (Sign((b"modded-nanogpt",)),)),
    )
    gives = ("loss", "memory_allocated_mib", "memory_reserved_mib", "train_iters")
    works_out = ("step_time_ms",)
    out_of = "the differences of train_time, which is cumulative"
    loss_kind = "iteration"
    holds = "the mean over the steps since the line before; evaluations are not in it"
    step = rb"step:\d{1,9}/\d{1,9} (?:train_|val_)"
    marker = b"train_time:"
    head = re.compile(
        rb"(?:\b|(?<=\dm))step:(\d{1,9})/(\d{1,9}) (?=(?:train_loss|train_time|val_loss):)"
    )
    context = (_PEAK_MARK,)

    def __init__(self) -> None:
        super().__init__()
        self._clock: _Clock | None = None
        self._last_step = 0  # the last step that a row has

    def look(self, text: bytes, at: int) -> None:
        """Read the framework's peak."""
        if peak := _PEAK.match(text, at):
            self.notes.allocated(quantity(peak[1]))
            self.notes.reserved(quantity(peak[2]))

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, with the time of the steps since the line before."""
        time = _TIME.search(tail)
        total = quantity(time[1]) if time else None
        if time is None or total is None:
            return None
        now = _Clock(whole_number(head[1]) or 0, total if time[2] == b"ms" else total * 1000)
        before = self._clock or (_Clock() if now.step == 1 else None)
        self._clock = now
        self.notes.facts[TRAIN_ITERS] = str(whole_number(head[2]) or 0)
        validation = _VALIDATION.match(tail)
        if validation:
            self.notes.validated(now.step, number(validation[1]))
        if not now.step or (validation and now.step == self._last_step):
            return None
        self._last_step = now.step
        row = LoggedStep(now.step)
        if before and now.step > before.step:
            row.iterations = now.step - before.step
            if now.total_ms > before.total_ms:
                row.step_time_ms = (now.total_ms - before.total_ms) / row.iterations
        if loss := _TRAIN_LOSS.search(tail):
            row.loss = number(loss[1])
            row.nan = int(row.loss is None)
        return row
