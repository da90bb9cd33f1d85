"""NeMo 2, and the progress bar of NeMo 1 and 2. Rank 0 prints.

    Training epoch 0, iteration 9/29 | lr: 4.8e-06 | global_batch_size: 512 | global_step: 9 |
    max_memory_allocated: 53930270720 | reduced_train_loss: 10.5 | train_step_timing in s: 26.92 |
    consumed_samples: 4096 | grad_norm: 1.833 | TFLOPS_per_GPU: 470.7

(one line, of the metrics that are logged with prog_bar; NVIDIA/NeMo 8cfedd72
nemo/lightning/pytorch/callbacks/progress_printer.py:129-141). What misleads:

* It counts from 0: 9/29 is the tenth of 30.
* Figures are sums over the window by its steps (:68-76), all but the step itself: of 5,120 samples
  consumed it says 4,096, and of TFLOP/s too little where a step had none, as the first has.
* Memory is in bytes, the allocator's peaks of rank 0: allocated, and reserved.

The bar is drawn again and again behind carriage returns:

    Epoch 0: : 100%|####| 100/100 [07:57<00:00, reduced_train_loss=7.310, global_step=99.00,
    consumed_samples=25600.0, train_step_timing in s=3.590]

(as NVIDIA's DGX Cloud recipe of Nemotron 4 340B has it; 8cfedd72 nemo/lightning/pytorch/callbacks/
progress_bar.py:19-55). Figures have three digits, so `global_step` says a step up to 99,999 alone;
in a first epoch the bar's own count does. No batch size is on it. NeMo 1's `41.36s/it` is smoothed
over whatever the bar counts, and no time of an iteration.
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser, fields_of, named
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, whole_number
from runner.logs.run_sizes import TRAIN_ITERS

_NEMO = Sign((b"nemo_logger", b"nemo/collections", b"nemo.lightning", b"nemo/lightning"))
_STEP = re.compile(rb"(\d{1,9})\.0{0,9}")
_BAR_FIELD = re.compile(rb"(?:\[|, )([a-z_]{1,40}(?: in s)?)=([^,\]\s]{1,40})(?=[,\]])")
_NAMES = {
    b"reduced_train_loss": "loss",
    b"train_step_timing in s": "step_time_s",
    b"grad_norm": "grad_norm",
    b"tokens_per_sec_per_gpu": "device_tokens_per_s",
    b"global_batch_size": "global_batch",
    b"TFLOPS_per_GPU": "tflop_per_s",
    b"max_memory_allocated": "allocated_bytes",
    b"max_memory_reserved": "reserved_bytes",
}


class NeMo(LineParser):
    """The lines of its ProgressPrinter. A value counts when ` | ` or its line's end follows."""

    name = "nemo"
    says = "NeMo's `Training epoch E, iteration N/M |` lines, which count from 0"
    candidates = (Candidate("command"),)
    mentions = (Candidate("command", "the log names nemo", (_NEMO,)),)
    loss_kind = "window"
    holds = "the mean over its iterations; evaluations are not in it"
    from_zero = True
    step = rb"Training epoch \d{1,9}, iteration \d{1,9}/\d{1,9} \| "
    success = rb"`Trainer\.fit` stopped: |Signaling Trainer to stop"
    marker = b"Training epoch "
    head = re.compile(rb"(?:\b|(?<=\dm))Training epoch \d{1,9}, iteration (\d{1,9})/(\d{1,9}) \| ")

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        fields = fields_of(tail, closed)
        step = fields.get(b"global_step", head[1])
        if whole_number(step) is None or b"reduced_train_loss" not in fields:
            return None
        self.notes.facts[TRAIN_ITERS] = str((whole_number(head[2]) or 0) + 1)
        return self.step_of({"iteration": step, **named(_NAMES, fields)})


class NeMoBar(LineParser):
    """The progress bar, each step once."""

    name = "nemo_bar"
    says = "NeMo's progress bar with `reduced_train_loss=`"
    candidates = (Candidate("command"),)
    loss_kind = "iteration"
    holds = "its own iteration's; evaluations are not in it"
    step = rb"\| \d{1,9}/\d{1,9} \[[\d:]{4,20}<[^\r\n]{1,200}reduced_train_loss=\d"
    marker = b"reduced_train_loss="
    head = re.compile(
        rb"Epoch (\d{1,9}): [^|\r\n]{0,12}\|[^|\r\n]{0,1000}\| {0,9}(\d{1,9})/(\d{1,9}|\?) "
        rb"(?=\[[\d:]{4,20}<)"
    )
    _last_iteration: int | None = None
    _validation: bytes | None = None  # as the bar shows it from then on

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one state of the bar, where it is of another step than the one before."""
        fields = {match[1]: match[2] for match in _BAR_FIELD.finditer(tail)}
        step = _STEP.fullmatch(fields.get(b"global_step", b""))
        iteration = (whole_number(step[1]) or 0) + 1 if step else whole_number(head[2])
        if b"reduced_train_loss" not in fields or (not step and whole_number(head[1])):
            return None
        if not iteration or iteration == self._last_iteration:
            return None
        self._last_iteration = iteration
        if (total := whole_number(head[3])) is not None and not whole_number(head[1]):
            self.notes.facts[TRAIN_ITERS] = str(total)
        if (loss_text := fields.get(b"val_loss")) not in (None, self._validation):
            self._validation = loss_text
            self.notes.validated(iteration - 1, number(loss_text))
        return self.step_of({"iteration": b"%d" % iteration, **named(_NAMES, fields)}, iterations=1)
