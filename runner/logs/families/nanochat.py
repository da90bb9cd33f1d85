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
from runner.logs.lines import LOSS, NORM, WORD, LineParser
from runner.logs.log_metadata import fact
from runner.logs.numbers import grouped
from runner.logs.run_sizes import DEVICES

_LOSS = rb" \([\d.]{1,9}%%\) \| loss: %b (?=\|)" % LOSS
_WORLD = re.compile(rb"Tokens / micro-batch: ([\d,]+)\s")
_EACH = re.compile(rb"Tokens / micro-batch / rank: \d{1,9} x \d{1,9} = ([\d,]+)\s")
_STAGES = b"%) | loss: ", b" | Training loss: "
_OTHER = re.compile(rb"(?:step \d{5,9} \([\d.]{1,9}|Step \d{5,9}/\d{5,9})$")


class Nanochat(LineParser):
    """The base training's lines."""

    name = "nanochat"
    says = "nanochat's `step N/M (..%) | loss:` lines, which count from 0"
    candidates = (Candidate("command"),)
    mentions: tuple[Candidate, ...] = (
        Candidate("command", "the log has nanochat's words", (Sign((b"tokens / micro-batch: ",)),)),
    )
    from_zero = True
    loss_kind = "running"
    validates = "validation loss in bits a byte"
    holds = "its own iteration's; evaluations and checkpoints are not in it"
    step = rb"step \d{5,9}/\d{5,9} \("
    marker = b"%) | loss: "
    head = re.compile(WORD + rb"step (?P<iteration>\d{5,9})/(?P<of>\d{5,9})" + _LOSS, re.IGNORECASE)
    fields = (
        re.compile(rb"\| dt: (?P<step_time_ms>[\d.]+)ms \|"),
        re.compile(rb"\| tok/sec: (?P<tokens_per_s>[\d,]+) \|"),
        re.compile(rb"\| grad norm: %b \|" % NORM),
    )
    facts = (
        fact(
            "Tokens / micro-batch / rank: ",
            r"Tokens / micro-batch / rank: \d{1,9} x (?P<tokens_per_sample>\d{1,9}) = [\d,]+\s",
        ),
        fact("Peak memory usage: ", r"Peak memory usage: (?P<allocated_mib>[\d.]+)MiB\s"),
        fact(
            " | Validation bpb: ",
            r"Step (?P<validated>\d{5,9}) \| Validation bpb: (?P<validation_loss>[\d.]{1,20})\s",
            before=16,
        ),
    )
    context: tuple[bytes, ...] = (*_STAGES, b"Tokens / micro-batch")
    _micro_batch_tokens = 0.0  # tokens of a micro-batch, of one rank

    def look(self, text: bytes, at: int) -> None:
        super().look(text, at)
        if text.startswith(_STAGES, at):
            if _OTHER.search(text, max(0, at - 24), at):
                self.notes.remarks.add(
                    "steps of a later stage (midtraining or SFT) are in the log and not in the"
                    " figures: --family nanochat of that stage's own log reads them"
                )
        elif each := _EACH.match(text, at):
            self._micro_batch_tokens = grouped(each[1]) or 0.0
        elif world := _WORLD.match(text, at):
            ranks, remainder = divmod(grouped(world[1]) or 0.0, self._micro_batch_tokens or 1.0)
            if self._micro_batch_tokens and not remainder:
                self.notes.facts[DEVICES] = str(int(ranks))


class NanochatSft(Nanochat):
    """The SFT's lines, whose total is not known before its end."""

    name = "nanochat_sft"
    says = "nanochat's `step N (..%) | loss:` lines of its SFT"
    mentions = ()
    from_zero = False
    step = rb"step \d{5,9} \("
    head = re.compile(WORD + rb"step (?P<iteration>\d{5,9})" + _LOSS, re.IGNORECASE)
    context = (b"Tokens / micro-batch",)
