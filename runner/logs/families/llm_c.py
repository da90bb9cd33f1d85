"""llm.c: its CUDA trainer, its Python one, and the C one of a CPU. Rank 0 prints.

    step    61/74 | loss 3.208939 (+nanz)| norm 1.4800 (+nanz)| lr 3.00e-04 | 44.57 ms |
    49.1% bf16 MFU | 91886 tok/s

(one line; f1e2ace train_gpt2.cu:1872) and, of Python (train_gpt2.py:842, train_llama3.py alike),

    step    1/10 | train loss 4.1 | norm 1.4 | lr 1.0e-04 | (1234.56 ms | 207 tok/s)

Before: `step    1/74: train loss 4.1 (acc 4.1) (44.57 ms, 91886 tok/s)` (2024-04-18 to -05-29, with
norm and lr since bc58cd1). `iteration 1, loss: 4.1, time: 44.570ms, tok/s: 91886.00, norm: 1.4`
(Python, 2024-04 to 032e76c of 05-24), from 0 until 654d6f5 of 04-30. `step 0: train loss 4.1 (took
44.57 ms)` (train_gpt2.c:1171 today; CUDA until fdd6608), from 0. `s:0 trl:4.1` (main.log). Traps:

* the CUDA trainer's tok/s is a running average since the second step (:868, weight 0.95; since
  ce333de): tokens/s is the tokens of a step over the line's own time, or is not known;
* its time is of the device, between two events, and holds no evaluation (:1827, :1854); Python's
  `t0` is before evaluation and sampling (train_gpt2.py:744), which that step's time then holds;
* `val loss 3.2` and `s:0 tel:` are evaluations, no steps;
* `skipping update due to loss z-score` (:1845) is printed before its step's line.
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LOSS, NORM, PRINTED, WORD, LineParser
from runner.logs.log_metadata import fact
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, whole_number

_TOKENS = re.compile(
    rb"batch_size B=\d{1,9} \* seq_len T=\d{1,9} \* num_processes=\d{1,9} and total_batch_size="
    rb"(\d{1,9})\s|total desired batch size: (\d{1,9})\s"
)
_VALIDATED = re.compile(rb"val loss " + PRINTED + rb"\s", re.IGNORECASE)
_PAUSES = (b"val loss ", b"---------------")  # before an evaluation's loss; around a sample's text
_COMMAND = (Candidate("command"),)
_WORDS = Sign(
    (b" and total_batch_size=", b"total desired batch size: "),
    re.compile(rb"(?<![a-z0-9_])train_(?:gpt2|llama3)(?:\.(?:cu|c|py)\b|(?:_fp32)?cu\b)"),
)
_NORM = re.compile(rb"[| ]norm:? {1,9}%b\s" % NORM, re.IGNORECASE)


class LlmC(LineParser):
    """Lines that say the step and their number."""

    name = "llm_c"
    says = "llm.c's `step N/M | .. ms | .. tok/s` lines"
    candidates = _COMMAND
    mentions: tuple[Candidate, ...] = (
        Candidate("command", "the log has llm.c's words", (_WORDS,)),
    )
    loss_kind = "iteration"
    holds = "its own iteration's; evaluations and checkpoints are not in it"
    step = rb"step {1,9}\d{1,9}/\d{1,9}(?: \|(?: train)?|: train) loss {1,9}"
    marker = b" loss "
    head = re.compile(
        WORD
        + rb"step {1,9}(?P<iteration>\d{1,9})/(?P<of>\d{1,9})(?: \|(?: train)?|: train) loss {1,9}"
        + LOSS
        + rb"(?= )",
        re.IGNORECASE,
    )
    fields: tuple[re.Pattern[bytes], ...] = (
        re.compile(rb"[(|] ?(?P<step_time_ms>[\d.]+) ms(?:,|\)| \|)"),
        re.compile(rb"[|,] (?P<tokens_per_s>[\d.]+) tok/s"),
        _NORM,
    )
    facts = (
        fact(
            "batch_size B=",
            r"batch_size B=\d{1,9} \* seq_len T=(?P<tokens_per_sample>\d{1,9})"
            r" \* num_processes=(?P<devices>\d{1,9}) and total_batch_size=\d{1,9}\s",
        ),
        fact("device memory usage: ", r"device memory usage: (?P<used_mib>\d{1,9}) MiB / "),
        fact(
            "peak memory consumption: ",  # of a CPU it prints 0
            r"peak memory consumption: (?P<allocated_mib>\d{1,9}) MiB\s",
        ),
    )
    context = (b"total desired batch size: ", b"skipping update due to ", *_PAUSES)
    averages = True  # whether tok/s is a running one, except Python's
    _tokens = 0  # of a step, of the whole job
    _skipped = 0  # 1 where the next line's update was
    _last_iteration = 0
    _paused = False  # whether an evaluation or a sample stands before the next line

    def look(self, text: bytes, at: int) -> None:
        super().look(text, at)
        if tokens := _TOKENS.match(text, at):
            self._tokens = whole_number(tokens[1] or tokens[2]) or 0
        elif text.startswith(_PAUSES, at):
            self._paused = True
            if validated := _VALIDATED.match(text, at):
                self.notes.validated(self._last_iteration, number(validated[1]))
        elif text.startswith(b"skipping", at):
            self._skipped = 1

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        step = self.step_of(self.words(head, tail, closed))
        if step is None:
            return None
        python = b" | (" in tail
        if self._paused and python:
            step.step_time_ms = step.tokens_per_s = None
        elif self._tokens and step.step_time_ms:
            step.tokens_per_s = self._tokens * 1000 / step.step_time_ms
        elif self.averages and step.iteration > 1 and not python:
            step.tokens_per_s = None
        step.skipped, self._skipped, self._paused = self._skipped, 0, False
        self._last_iteration = step.iteration
        return step


class LlmCOnCpu(LlmC):
    """Lines of the C trainer, and of the first CUDA one."""

    name = "llm_c_cpu"
    says = "llm.c's `step N: train loss .. (took .. ms)` lines, which count from 0"
    mentions = ()
    from_zero = True
    step = rb"step \d{1,9}: train loss \S{1,40} \(took "
    marker = b" (took "
    head = re.compile(
        WORD + rb"step (?P<iteration>\d{1,9}): train loss %b \((?=took )" % LOSS, re.IGNORECASE
    )
    fields = (re.compile(rb"^took (?P<step_time_ms>[\d.]+) ms\)"),)


class LlmCIterations(LlmC):
    """Lines of the Python trainer of spring 2024; the first tells whether they count from 0."""

    name = "llm_c_iterations"
    says = "llm.c's `iteration N, loss: .., time: ..ms` lines of spring 2024"
    mentions = ()
    step = rb"iteration \d{1,9}, loss: "
    marker = b", loss: "
    head = re.compile(
        WORD + rb"iteration (?P<iteration>\d{1,9}), loss: %b, time: " % LOSS, re.IGNORECASE
    )
    fields = (
        re.compile(rb"^(?P<step_time_ms>[\d.]+)ms"),
        re.compile(rb", tok/s: (?P<tokens_per_s>[\d.]+)(?:,|\s)"),
        _NORM,
    )
    averages = False
    _printed = -1

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        printed = whole_number(head["iteration"]) or 0
        if printed <= self._printed or self._printed < 0:
            self.from_zero = printed == 0
        self._printed = printed
        return super().row(head, tail, closed)


class LlmCLog(LineParser):
    """Lines of its main.log."""

    name = "llm_c_log"
    says = "llm.c's `s:N trl:` lines of main.log, which count from 0 and hold no time"
    candidates = _COMMAND
    from_zero = True
    loss_kind = "iteration"
    step = rb"s:\d{1,9} trl:"
    marker = b" trl:"
    head = re.compile(WORD + rb"s:(?P<iteration>\d{1,9}) trl:%b(?=\s|$)" % LOSS, re.IGNORECASE)
    fields = (re.compile(rb" norm:%b\s" % NORM, re.IGNORECASE),)
    facts = (
        fact(
            " tel:",
            r"s:(?P<validated>\d{1,9}) tel:(?P<validation_loss>\S{1,40})\s",
            before=11,
        ),
    )
