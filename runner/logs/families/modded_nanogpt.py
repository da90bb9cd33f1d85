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

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LOSS, VALIDATION, WORD, LineParser
from runner.logs.log_metadata import fact
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, quantity

_VALIDATION = re.compile(rb"^val_loss:%b " % VALIDATION, re.IGNORECASE)
_TIME = re.compile(rb"(?:^| )train_time:([\d.]+)(m?s) ")


class ModdedNanoGpt(LineParser):
    """Lines of steps and of validations."""

    name = "modded_nanogpt"
    says = "modded-nanogpt's `step:N/M train_time:` lines"
    candidates = (Candidate("command"),)
    mentions = (
        Candidate("command", "the log has modded-nanogpt's words", (Sign((b"modded-nanogpt",)),)),
    )
    loss_kind = "iteration"
    holds = "the mean over the steps since the line before; evaluations are not in it"
    step = rb"step:\d{1,9}/\d{1,9} (?:train_|val_)"
    marker = b"train_time:"
    head = re.compile(
        WORD
        + rb"step:(?P<iteration>\d{1,9})/(?P<of>\d{1,9}) (?=(?:train_loss|train_time|val_loss):)"
    )
    fields = (re.compile(rb"^train_loss:%b " % LOSS, re.IGNORECASE),)
    facts = (
        fact(
            "peak memory ",
            r"peak memory (?:allocated|consumption): (?P<allocated_mib>\d{1,9}) MiB"
            r"(?: reserved: (?P<reserved_mib>\d{1,9}) MiB)?\s",
        ),
    )
    _clock: tuple[int, float] | None = None  # the step of the last line, and what it said (ms)
    _last_step = 0  # the last step that a row has

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, with the time of the steps since the line before."""
        time = _TIME.search(tail)
        total_ms = quantity(time[1]) if time else None
        row = self.step_of(self.words(head, tail, closed))
        if row is None or time is None or total_ms is None:
            return None
        now, total_ms = row.iteration, total_ms * (1 if time[2] == b"ms" else 1000)
        before, before_ms = self._clock or ((0, 0.0) if now == 1 else (now, 0.0))
        self._clock = (now, total_ms)
        if validation := _VALIDATION.match(tail):
            self.notes.validated(now, number(validation[1]))
        if not now or (validation and now == self._last_step):
            return None
        self._last_step = now
        if now > before:
            row.iterations = now - before
            if total_ms > before_ms:
                row.step_time_ms = (total_ms - before_ms) / row.iterations
        return row
