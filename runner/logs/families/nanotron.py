"""nanotron's lines, from the ranks that its logger lets through.

    11/22/2026 14:51:32 [INFO|DP=0|PP=0|TP=0|node-17]: iteration: 2 / 30 | consumed_tokens: 4.19M |
    elapsed_time_per_iteration_ms: 11.6K | tokens_per_sec: 180K | tokens_per_sec_per_gpu: 22.5K |
    global_batch_size: 1.02K | lm_loss: 11 | lr: 2e-05 | model_tflops_per_gpu: 312 | ...

(one line; v0.4 f2c83832 src/nanotron/trainer.py:438-473). Since 2025-03 (2b141c2f; 2411b022
trainer.py:772-786) `time_per_iteration_ms`, `grad_norm` before the loss, an `eta`, and
`global_batch_size` in tokens; the stamp is grey (logging/base.py:361). What misleads:

* Numbers have three digits, `1.25K` or `2.62M` (logging/base.py:271-281), so a time or a rate is
  good to half a percent. A thousand million is B, until 2025-04 (37cc8b0c) G.
* A batch of 1,024 samples is `1.02K`, and newer ones are tokens: it is taken from the line `mbs: 8
  | grad_accum: 32 | ... | global_batch_size: 1024 | train_steps: 30 | ...` (trainer.py:341, v0.4
  :274), without that from an older step's line where it has no suffix.
* The time is of the line's own iteration, also where not each is printed (trainer.py:590, :755).
* `cuda_max_memory_reserved` (a run's first iterations, until 2025-03) and `Peak reserved` are the
  most that torch's allocator reserved: more than was allocated.
"""

import re

from runner.logs.decoding import line_end
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import WORD, LineParser, fields_of, named
from runner.logs.log_metadata import fact
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import human, whole_number
from runner.logs.run_sizes import TOKENS_PER_SAMPLE, TRAIN_ITERS

_SIZES = re.compile(rb"\| (sequence_length|global_batch_size|train_steps): (\d{1,9})(?= \|)")
_NAMES = {
    b"elapsed_time_per_iteration_ms": "step_time_ms",
    b"time_per_iteration_ms": "step_time_ms",
    b"lm_loss": "loss",
    b"grad_norm": "grad_norm",
    b"tokens_per_sec": "tokens_per_s",
    b"tokens_per_sec_per_gpu": "device_tokens_per_s",
    b"model_tflops_per_gpu": "tflop_per_s",
}


class Nanotron(LineParser):
    """A value counts when what follows it is there: ` | `, or its line's end."""

    name = "nanotron"
    says = "nanotron's `iteration: N / M | consumed_tokens:` lines"
    candidates = (Candidate("command"),)
    mentions = (Candidate("command", "the log names nanotron", (Sign((b"nanotron",)),)),)
    loss_kind = "iteration"
    holds = "its own iteration's; evaluations and checkpoints are not in it"
    step = rb"iteration: \d{1,9} / \d{1,9} \| consumed_tokens: "
    marker = b"| consumed_tokens: "
    head = re.compile(WORD + rb"iteration: (\d{1,9}) / (\d{1,9}) \| (?=consumed_tokens: )")
    facts = (fact(" Peak reserved: ", r" Peak reserved: (?P<reserved_mib>[\d.]{1,20})MiB"),)
    context = (b" | grad_accum: ",)
    read = staticmethod(human)
    _batch = 0

    def look(self, text: bytes, at: int) -> None:
        super().look(text, at)
        sizes = {match[1]: match[2] for match in _SIZES.finditer(text, at, line_end(text, at))}
        self._batch = whole_number(sizes.get(b"global_batch_size")) or self._batch
        for name, word in ((b"sequence_length", TOKENS_PER_SAMPLE), (b"train_steps", TRAIN_ITERS)):
            if name in sizes:
                self.notes.facts[word] = sizes[name].decode()

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        fields = fields_of(tail, closed)
        if b"lm_loss" not in fields or not whole_number(head[1]):
            return None
        self.notes.facts.setdefault(TRAIN_ITERS, head[2].decode())
        reserved = human(fields.get(b"cuda_max_memory_reserved"))
        self.notes.peak("memory_reserved_mib", reserved and reserved / 2**20)
        step = self.step_of({"iteration": head[1], **named(_NAMES, fields)}, iterations=1)
        if step:
            old = b"elapsed_time_per_iteration_ms" in fields
            samples = whole_number(fields.get(b"global_batch_size")) if old else None
            step.global_batch = self._batch or samples or 0
        return step
