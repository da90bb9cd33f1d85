"""nanochat: its base training and its SFT print alike, on rank 0 (`print0`).

    step 00010/16704 (0.06%) | loss: 8.31 | lrm: 1.00 | dt: 402.11ms | tok/sec: 1,303,857 |
    bf16_mfu: 41.2 | epoch: 1 pq: 0 rg: 3 | total time: 0.00m | eta: 112.1m

(one line; 92d63d4 scripts/base_train.py:567, scripts/chat_sft.py:469 without the total.) Before
2026-02 `mfu:`; from 2025-11 to 2026-01 with ` grad norm: 0.1234 |` (c6b7ab7, 061f83c). Traps:

* the base training counts from 0 (:567, :584), SFT from 1 (chat_sft.py:458);
* `loss` is a running average over about ten steps (:549, weight 0.9), not the step's own;
* `total time` leaves out the first ten steps (:555); `dt` and `tok/sec` are the step's own, between
  two synchronisations and without evaluations (:508, :542).

The midtraining of 2025 (1ddaad1 took it away) prints as SFT does. Of a log with several stages the
base training is read, and the others are named. Its SFT of 2025 printed `Step 00010/00100 |
Training loss: ..` without a time, and is not read.
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import PRINTED, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import grouped, number, quantity, whole_number
from runner.logs.run_sizes import DEVICES, TOKENS_PER_SAMPLE, TRAIN_ITERS

_TIME = re.compile(rb"\| dt: ([\d.]+)ms \|")
_RATE = re.compile(rb"\| tok/sec: ([\d,]+) \|")
_NORM = re.compile(rb"\| grad norm: " + PRINTED + rb" \|")
_LOSS = rb" \([\d.]{1,9}%\) \| loss: " + PRINTED + rb" (?=\|)"
_EACH = re.compile(rb"Tokens / micro-batch / rank: \d{1,9} x (\d{1,9}) = ([\d,]+)\s")
_WORLD = re.compile(rb"Tokens / micro-batch: ([\d,]+)\s")
_VALIDATED = re.compile(rb"Step (\d{5,9}) \| Validation bpb: ([\d.]{1,20})\s")
_STAGES = b"%) | loss: ", b" | Training loss: "
_OTHER = re.compile(rb"(?:step \d{5,9} \([\d.]{1,9}|Step \d{5,9}/\d{5,9})$")
_PEAK = re.compile(rb"Peak memory usage: ([\d.]+)MiB\s")


class Nanochat(LineParser):
    """The base training's lines."""

    name = "nanochat"
    says = "nanochat's `step N/M (..%) | loss:` lines, which count from 0"
    candidates = (Candidate("command"),)
    mentions: tuple[Candidate, ...] = (
        Candidate("command", "the log has nanochat's words", (Sign((b"tokens / micro-batch: ",)),)),
    )
    from_zero = True
    gives: tuple[str, ...] = (
        *("step_time_ms", "tokens_per_s", "loss", "grad_norm", "memory_allocated_mib"),
        *("tokens_per_sample", "devices", "train_iters"),
    )
    loss_kind = "running"
    validates = "validation loss in bits a byte"
    holds = "its own iteration's; evaluations and checkpoints are not in it"
    step = rb"step \d{5,9}/\d{5,9} \("
    marker = b"%) | loss: "
    head = re.compile(
        rb"(?:\b|(?<=\dm))step (\d{5,9})/(\d{5,9}) \([\d.]{1,9}%\) \| loss: "
        + PRINTED
        + rb" (?=\|)",
        re.IGNORECASE,
    )
    context: tuple[bytes, ...] = (
        b"%) | loss: ",
        b" | Training loss: ",
        b"Tokens / micro-batch",
        b"Peak memory usage: ",
        b" | Validation bpb: ",
    )

    def __init__(self) -> None:
        super().__init__()
        self._micro_batch_tokens = 0.0  # tokens of a micro-batch, of one rank

    def look(self, text: bytes, at: int) -> None:
        """Read the sizes of a micro-batch, or the framework's peak; of a CPU that is 0."""
        if text.startswith(_STAGES, at):
            if _OTHER.search(text, max(0, at - 24), at):
                self.notes.remarks.add(
                    "steps of a later stage (midtraining or SFT) are in the log and not in the"
                    " figures: --family nanochat of that stage's own log reads them"
                )
        elif sizes := _EACH.match(text, at):
            self._micro_batch_tokens = grouped(sizes[2]) or 0.0
            self.notes.facts[TOKENS_PER_SAMPLE] = str(whole_number(sizes[1]) or 0)
        elif world := _WORLD.match(text, at):
            ranks, remainder = divmod(grouped(world[1]) or 0.0, self._micro_batch_tokens or 1.0)
            if self._micro_batch_tokens and not remainder:
                self.notes.facts[DEVICES] = str(int(ranks))
        elif validated := _VALIDATED.search(text, max(0, at - 16), at + 60):
            self.notes.validated(whole_number(validated[1]), number(validated[2]))
        elif peak := _PEAK.match(text, at):
            self.notes.allocated(quantity(peak[1]) or None)

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line, counted from 1."""
        self.notes.facts[TRAIN_ITERS] = str(whole_number(head[2]) or 0)
        return _step((whole_number(head[1]) or 0) + 1, head[3], tail)


class NanochatSft(Nanochat):
    """The SFT's lines, whose total is not known before its end."""

    name = "nanochat_sft"
    context = (b"Tokens / micro-batch", b"Peak memory usage: ", b" | Validation bpb: ")
    says = "nanochat's `step N (..%) | loss:` lines of its SFT"
    mentions = ()
    from_zero = False
    gives = ("step_time_ms", "tokens_per_s", "loss", "tokens_per_sample", "devices")
    step = rb"step \d{5,9} \("
    head = re.compile(rb"(?:\b|(?<=\dm))step (\d{5,9})" + _LOSS, re.IGNORECASE)

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line."""
        return _step(whole_number(head[1]) or 0, head[2], tail)


def _step(iteration: int, loss: bytes, tail: bytes) -> LoggedStep | None:
    time, rate, norm = (pattern.search(tail) for pattern in (_TIME, _RATE, _NORM))
    value = number(loss)
    return LoggedStep(
        iteration,
        step_time_ms=number(time[1]) if time else None,
        tokens_per_s=grouped(rate[1]) if rate else None,
        loss=value,
        grad_norm=number(norm[1]) if norm else None,
        nan=int(value is None),
    )
