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
from runner.logs.lines import PRINTED, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, quantity, whole_number
from runner.logs.run_sizes import DEVICES, TOKENS_PER_SAMPLE, TRAIN_ITERS

_NORM = re.compile(rb"[| ]norm:? {1,9}" + PRINTED + rb"\s", re.IGNORECASE)
_SIZES = re.compile(
    rb"batch_size B=\d{1,9} \* seq_len T=(\d{1,9}) \* num_processes=(\d{1,9})"
    rb" and total_batch_size=(\d{1,9})\s"
)
_DESIRED = re.compile(rb"total desired batch size: (\d{1,9})\s")
_MEMORY_KEYS = ("memory_allocated_mib", "memory_used_mib")
_MEMORY = re.compile(rb"device memory usage: (\d{1,9}) MiB / ")
_VALIDATED = re.compile(rb"val loss " + PRINTED + rb"\s", re.IGNORECASE)
_PEAK = re.compile(rb"peak memory consumption: (\d{1,9}) MiB\s")
_PAUSES = (b"val loss ", b"---------------")  # before an evaluation's loss; around a sample's text
_COMMAND = (Candidate("command"),)
_WORDS = Sign(
    (b" and total_batch_size=", b"total desired batch size: "),
    re.compile(rb"(?<![a-z0-9_])train_(?:gpt2|llama3)(?:\.(?:cu|c|py)\b|(?:_fp32)?cu\b)"),
)


class LlmC(LineParser):
    """Lines that say the step and their number."""

    name = "llm_c"
    says = "llm.c's `step N/M | .. ms | .. tok/s` lines"
    candidates = _COMMAND
    mentions: tuple[Candidate, ...] = (
        Candidate(
            "command",
            "the log has llm.c's words",
            (_WORDS,),
        ),
    )
    gives: tuple[str, ...] = (
        *("step_time_ms", "tokens_per_s", "loss", "grad_norm", "skipped", *_MEMORY_KEYS),
        *("tokens_per_sample", "devices", "train_iters"),
    )
    loss_kind = "iteration"
    holds = "its own iteration's; evaluations and checkpoints are not in it"
    step = rb"step {1,9}\d{1,9}/\d{1,9}(?: \|(?: train)?|: train) loss {1,9}"
    marker = b" loss "
    head = re.compile(
        rb"(?:\b|(?<=\dm))step {1,9}(\d{1,9})/(\d{1,9})(?: \|(?: train)?|: train) loss {1,9}"
        + PRINTED
        + rb"(?= )",
        re.IGNORECASE,
    )
    context = (
        *(b"batch_size B=", b"total desired batch size: ", b"skipping update due to "),
        *(b"device memory usage: ", b"peak memory consumption: ", *_PAUSES),
    )
    time = re.compile(rb"[(|] ?([\d.]+) ms(?:,|\)| \|)")
    rate = re.compile(rb"[|,] ([\d.]+) tok/s")

    def __init__(self) -> None:
        super().__init__()
        self._tokens = 0  # of a step, of the whole job
        self._skipped = 0  # 1 where the next line's update was
        self._last_iteration = 0
        self._paused = False  # whether an evaluation or a sample stands before the next line

    def look(self, text: bytes, at: int) -> None:
        """Read the sizes of a step, memory, and that an update is skipped."""
        if sizes := _SIZES.match(text, at):
            self.notes.facts[TOKENS_PER_SAMPLE] = sizes[1].decode()
            self.notes.facts[DEVICES] = sizes[2].decode()
            self._tokens = whole_number(sizes[3]) or 0
        elif desired := _DESIRED.match(text, at):
            self._tokens = whole_number(desired[1]) or 0
        elif used := _MEMORY.match(text, at):
            self.notes.used(quantity(used[1]) or 0.0)
        elif peak := _PEAK.match(text, at):
            self.notes.allocated(quantity(peak[1]) or None)  # of a CPU it prints 0
        elif text.startswith(_PAUSES, at):
            self._paused = True
            if validated := _VALIDATED.match(text, at):
                self.notes.validated(self._last_iteration, number(validated[1]))
        elif text.startswith(b"skipping", at):
            self._skipped = 1

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line."""
        self.notes.facts[TRAIN_ITERS] = str(whole_number(head[2]) or 0)
        return self._step(whole_number(head[1]) or 0, head[3], tail)

    def _step(self, iteration: int, loss: bytes, tail: bytes) -> LoggedStep:
        time, rate, norm = (pattern.search(tail) for pattern in (self.time, self.rate, _NORM))
        value = number(loss)
        tokens = number(rate[1]) if rate else None
        time_ms = number(time[1]) if time else None
        if self._paused and b" | (" in tail:  # Python's
            time_ms = tokens = None
        elif self._tokens and time_ms:
            tokens = self._tokens * 1000 / time_ms
        elif rate and iteration > 1 and rate[0].endswith(b"tok/s") and b" | (" not in tail:
            tokens = None
        skipped, self._skipped, self._paused = self._skipped, 0, False
        self._last_iteration = iteration
        return LoggedStep(
            iteration,
            step_time_ms=time_ms,
            tokens_per_s=tokens,
            loss=value,
            grad_norm=number(norm[1]) if norm else None,
            nan=int(value is None),
            skipped=skipped,
        )


class LlmCOnCpu(LlmC):
    """Lines of the C trainer, and of the first CUDA one."""

    name = "llm_c_cpu"
    says = "llm.c's `step N: train loss .. (took .. ms)` lines, which count from 0"
    mentions = ()
    from_zero = True
    gives = ("step_time_ms", "loss")
    step = rb"step \d{1,9}: train loss \S{1,40} \(took "
    marker = b" (took "
    time = re.compile(rb"^took ([\d.]+) ms\)")
    head = re.compile(
        rb"(?:\b|(?<=\dm))step (\d{1,9}): train loss " + PRINTED + rb" \((?=took )",
        re.IGNORECASE,
    )

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, counted from 1."""
        return self._step((whole_number(head[1]) or 0) + 1, head[2], tail)


class LlmCIterations(LlmC):
    """Lines of the Python trainer of spring 2024; the first tells whether they count from 0."""

    name = "llm_c_iterations"
    says = "llm.c's `iteration N, loss: .., time: ..ms` lines of spring 2024"
    mentions = ()
    gives = ("step_time_ms", "tokens_per_s", "loss", "grad_norm")
    step = rb"iteration \d{1,9}, loss: "
    marker = b", loss: "
    head = re.compile(
        rb"(?:\b|(?<=\dm))iteration (\d{1,9}), loss: " + PRINTED + rb", time: ", re.IGNORECASE
    )
    time = re.compile(rb"^([\d.]+)ms")
    rate = re.compile(rb", tok/s: ([\d.]+)(?:,|\s)")

    def __init__(self) -> None:
        super().__init__()
        self._printed = -1
        self._from_zero = False

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, counted from 1."""
        printed = whole_number(head[1]) or 0
        if printed <= self._printed or self._printed < 0:
            self._from_zero = printed == 0
        self._printed = printed
        return self._step(printed + self._from_zero, head[2], tail + b"\n" if closed else tail)


class LlmCLog(LineParser):
    """Lines of its main.log."""

    name = "llm_c_log"
    says = "llm.c's `s:N trl:` lines of main.log, which count from 0 and hold no time"
    candidates = _COMMAND
    from_zero = True
    gives = ("loss", "grad_norm")
    loss_kind = "iteration"
    context = (b" tel:",)
    step = rb"s:\d{1,9} trl:"
    marker = b" trl:"
    head = re.compile(rb"(?:\b|(?<=\dm))s:(\d{1,9}) trl:" + PRINTED + rb"(?=\s|$)", re.IGNORECASE)
    norm = re.compile(rb" norm:" + PRINTED + rb"\s", re.IGNORECASE)
    validation = re.compile(rb"s:(\d{1,9}) tel:" + PRINTED + rb"\s", re.IGNORECASE)

    def look(self, text: bytes, at: int) -> None:
        """Read the loss of an evaluation."""
        if match := self.validation.search(text, max(0, at - 11), at + 50):
            self.notes.validated(whole_number(match[1]), number(match[2]))

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, counted from 1."""
        loss, norm = number(head[2]), self.norm.search(tail + b"\n" if closed else tail)
        return LoggedStep(
            (whole_number(head[1]) or 0) + 1,
            loss=loss,
            grad_norm=number(norm[1]) if norm else None,
            nan=int(loss is None),
        )
