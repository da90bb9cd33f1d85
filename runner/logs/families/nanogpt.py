"""nanoGPT: `iter 10: loss 4.7797, time 222.85ms, mfu 0.00%`, from the process of rank 0.

3adf61e train.py:327; until February 2023 without mfu (ab0718a7). Four things mislead:

* it counts from 0, and trains one iteration more than max_iters says (:332): 0 to 24 of 24;
* a line stands every log_interval iterations, but its time is of that one iteration alone
  (:317-319), so a line covers one iteration, whatever the distance to the line before;
* the clock is read before the device's work is waited for (`loss.item()`, :323): with
  `--log_interval=1` a line's time is the iteration's, with more it is what the host took;
* at a multiple of eval_interval the time holds an evaluation on both splits, and the checkpoint
  (:263-286), which `step 10: train loss .., val loss ..` announces: such a line has no time here.

`tokens per iteration will be: 491,520` is of the whole job (:101). In 2023-04 it was `total number
of tokens per iteration: 61440`, of one process (553f949f).
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LOSS, VALIDATION, WORD, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import grouped, number, whole_number
from runner.logs.run_sizes import TOKENS_PER_SAMPLE, TRAIN_ITERS

_EVALUATED = re.compile(rb"step (\d{1,9})$")
_VALIDATED = re.compile(
    rb": train loss [^\s,]{1,40}, val loss " + VALIDATION + rb"\s", re.IGNORECASE
)
# What its configurator prints of the command line, and the file of settings that it shows.
_SAID = re.compile(
    rb"(?P<name>block_size|max_iters) = (\d{1,9})\s|tokens per iteration will be: ([\d,]+)\s"
)


class NanoGpt(LineParser):
    """A line says one iteration."""

    name = "nanogpt"
    says = "nanoGPT's `iter N: loss .., time ..ms` lines, which count from 0"
    candidates = (Candidate("command"),)
    mentions = (
        Candidate(
            "command", "the log has nanoGPT's words", (Sign((b"tokens per iteration will be: ",)),)
        ),
    )
    from_zero = True
    loss_kind = "iteration"
    holds = "its own iteration's; missing where it holds an evaluation"
    step = rb"iter \d{1,9}: loss "
    marker = b": loss "
    head = re.compile(
        WORD + rb"iter (?P<iteration>\d{1,9}): loss %b, time (?P<step_time_ms>[\d.]+)ms" % LOSS,
        re.IGNORECASE,
    )
    context = (
        b": train loss ",
        b"tokens per iteration will be: ",
        b"block_size = ",
        b"max_iters = ",
    )
    _evaluated: int | None = None
    _tokens: float | None = None  # of an iteration

    def look(self, text: bytes, at: int) -> None:
        if evaluated := _EVALUATED.search(text, max(0, at - 16), at):
            self._evaluated = whole_number(evaluated[1])
            if validated := _VALIDATED.match(text, at):
                self.notes.validated(self._evaluated, number(validated[1]))
        elif said := _SAID.match(text, at):
            if said[3]:
                self._tokens = grouped(said[3])
            elif said[1] == b"block_size":
                self.notes.facts[TOKENS_PER_SAMPLE] = said[2].decode()
            else:
                self.notes.facts[TRAIN_ITERS] = str((whole_number(said[2]) or 0) + 1)

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        step = self.step_of(head.groupdict(), iterations=1)
        if step and step.iteration - 1 == self._evaluated:
            step.step_time_ms = None
        elif step and step.step_time_ms and self._tokens:
            step.tokens_per_s = self._tokens * 1000 / step.step_time_ms
        return step
