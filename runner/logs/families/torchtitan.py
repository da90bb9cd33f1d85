"""torchtitan's lines, from the ranks that LOG_RANK lets through. Fields stand two blanks apart.

    [rank0]:[titan] 2026-11-22 14:49:35,827 - root - INFO - step: 20  loss:  9.22166
    grad_norm:  8.4212  memory: 84.26GiB(60.27%)  tps: 8,666  tflops: 441.96  mfu: 44.69%

(one line, with colours around its fields unless metrics.disable_color_printing; v0.2.2 73a0e697
torchtitan/components/metrics.py:460-470). `wps` until 2024-11 (4d182a13), no `grad_norm` until
2025-06 (a85e2a53), no `tflops` until 2025-02 (#847), no `[titan]` until 2025-02 (cbb7acd5),
`mfu: N/A` since 2026-02 (f113706c). What misleads:

* `tps` is of one device: the tokens of a data parallel rank over tensor x context x pipeline
  parallel (:422-424). The job's needs the devices, samples/s the length of a sample, and the time
  of an iteration, which no line has, the batch, too: lines before the first step say all of them.
* Step 1 is always printed (:390), so lines are 1, 10, 20, ...: the second covers nine iterations.
  The time of the first has the model's set-up and compilation in it.
* A validation begins a new window (:579, b5bcd76c); a checkpoint does not, and is in the next
  line's time: `Finished saving the checkpoint in 3.21 seconds.` (b5bcd76c checkpointer/dcp.py:490,
  v0.2.2 checkpoint.py:546) is taken out of it.
* `memory` is the most that torch's allocator had reserved since the line before, on the rank that
  prints: more than was allocated, and of one device.
* On a rank that has no last pipeline stage the loss is the sum of -1s (train.py:556), no loss. The
  other ranks print the same loss again, in `[rank7]:` lines of their own or without.

The sizes are in `Trainer is initialized with` (train.py:354), before 2025-03 in `Training starts
at step` (b63e2098, b925cfa4:303), since 2026-08 in tokens (73aed7f6 trainer.py:621-629): then a
sample is of the maximum context length.
"""

import re
from collections.abc import Mapping
from math import prod

from runner.logs.decoding import line_end, line_start, uncoloured
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import PRINTED, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import grouped, number, quantity, whole_number
from runner.logs.run_sizes import DEVICES, TOKENS_PER_SAMPLE, TRAIN_ITERS

_LOSS = re.compile(rb"loss: {1,8}" + PRINTED + rb"  ", re.IGNORECASE)
_NORM = re.compile(rb"  grad_norm: {1,8}(\S{1,40})  ")
_MEMORY = re.compile(rb"  memory: {1,8}([\d.]{1,20})GiB\(")
_TOKENS = re.compile(rb"  [tw]ps: {1,8}([\d,]{1,20})  ")
_TFLOPS = re.compile(rb"  tflops: {1,8}([\d,.]{1,20})  ")
_STARTS = re.compile(rb"Training starts at step (\d{1,9})[.,\s]")
_SIZES = re.compile(
    rb"local batch size:? \d{1,9}, (?:global batch size (\d{1,9}), )?"
    rb"(?:gradient accumulation steps \d{1,9}, )?sequence length:? (\d{1,9}),"
    rb" total steps:? (\d{1,9})[ (]"
)
_SIZES_IN_TOKENS = re.compile(
    rb"\d{1,12} tokens per DP rank, (\d{1,9}) tokens per train step, gradient accumulation steps"
    rb" \d{1,9}, maximum context length (\d{1,9}), total steps (\d{1,9}) "
)
_MESH = re.compile(
    rb"device mesh with (?:[\[(][\w', ]{0,200}[\])], \[([\d, ]{0,80})\]"
    rb"|parallelism: pp=(\d{1,6}), dp_replicate=(\d{1,6}), dp_shard=(\d{1,6}), cp=(\d{1,6}),"
    rb" tp=(\d{1,6}),)"
)
_SAVED = re.compile(
    rb"Finished (?:saving|staging) the checkpoint(?: \(or staging if async is enabled\))? ?in"
    rb" ([\d.]{1,20}) seconds"
)
_VALIDATED = re.compile(rb"validate step: {1,9}(\d{1,9})  ([^\r\n]{0,60})")
_RANK = re.compile(rb"\[([a-z]{1,20}\d{1,9})\]:")
BEFORE = 100  # bytes before `Training starts` in which its rank stands
_TITAN = Sign((b"[titan] ", b"torchtitan"))


class TorchTitan(LineParser):
    """A line counts when its loss is whole. What further ranks print of the same step does not."""

    name = "torchtitan"
    says = "torchtitan's `step: N  loss:` lines"
    candidates = (Candidate("torchtitan"),)
    mentions = (Candidate("torchtitan", "the log names torchtitan", (_TITAN,)),)
    loss_kind = "iteration"
    holds = (
        "the mean since the line before, or since a validation; checkpoints are in it"
        " where the log does not say how long they took"
    )
    counter = rb"step:(?<!validate step:) {1,9}(\d{1,9})  "
    step = rb"step:(?<!validate step:) {1,9}\d{1,9}  (?:\x1b\[[\d;]{1,20}m)?loss: "
    success = rb" - root - INFO - Training completed\b"
    marker = b"step: "
    head = re.compile(
        rb"(?:(?<=\dm)|(?<![A-Za-z_]))(?<!validate )step: {1,9}(\d{1,9})  "
        rb"(?:\x1b\[[\d;]{1,20}m)?(?=loss: )"
    )
    context = (
        *(b"Trainer is initialized with ", b"Training starts at step ", b"device mesh with "),
        *(b"Finished saving the checkpoint", b"Finished staging the checkpoint"),
        b"validate step: ",
    )
    _batch = 0
    _starter: bytes | None = None  # the rank that said first where training starts
    _last_step: int | None = None  # the run's last step, or the one before its first
    _before: int | None = None
    _loss_known = False  # by a rank that prints
    _saved: Mapping[bytes, float] = {}  # s of checkpoints since the last line, by rank
    _validated = 0  # the step that a window begins behind, where it was not logged

    def look(self, text: bytes, at: int) -> None:
        """Read the sizes of a run, and where it starts."""
        end = line_end(text, at)
        if starts := _STARTS.match(text, at):
            name = _rank(text, at)
            if self._starter in (None, name):
                self._starter = name
                self._last_step, self._before = (whole_number(starts[1]) or 0) - 1, None
                self._loss_known = False
        elif saved := _SAVED.match(text, at, end):
            name = _rank(text, at)
            took_s = self._saved.get(name, 0.0) + (quantity(saved[1]) or 0.0)
            self._saved = {**self._saved, name: took_s}
        elif validated := _VALIDATED.match(text, at, end):
            self._validated, self._saved = whole_number(validated[1]) or 0, {}
            loss = _LOSS.match(uncoloured(validated[2]))
            value = number(loss[1]) if loss else None
            if value is not None and value >= 0:  # -1 on ranks without the last stage
                self.notes.validated(self._validated, value)
        if mesh := _MESH.match(text, at, end):
            sizes = mesh.groups()[1:] if mesh[1] is None else mesh[1].split(b",")
            self.notes.facts[DEVICES] = str(prod(whole_number(size.strip()) or 1 for size in sizes))
        elif sizes_of := _SIZES.search(text, at, end):
            self._sizes(whole_number(sizes_of[1]) or 0, sizes_of[2], sizes_of[3])
        elif tokens := _SIZES_IN_TOKENS.search(text, at, end):
            samples, remainder = divmod(whole_number(tokens[1]) or 0, whole_number(tokens[2]) or 1)
            self._sizes(0 if remainder else samples, tokens[2], tokens[3])

    def _sizes(self, batch: int, length: bytes, steps: bytes) -> None:
        self._batch = batch
        self.notes.facts |= {TOKENS_PER_SAMPLE: length.decode(), TRAIN_ITERS: steps.decode()}

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line."""
        iteration = whole_number(head[1])
        text = uncoloured(tail) + (b"  " if closed else b"")
        printed = _LOSS.match(text)
        if not iteration or printed is None:
            return None
        loss = number(printed[1])
        nan, no_stage = loss is None, loss is not None and loss < 0
        if no_stage and self._loss_known:
            return None
        self._loss_known = self._loss_known or not no_stage
        if iteration in (self._last_step, self._before):  # another rank's
            return None
        covers = iteration - self._last_step if self._last_step is not None else 0
        if 0 < iteration - self._validated < covers:
            covers = iteration - self._validated  # a validation begins a new window
        self._last_step, self._before = iteration, self._last_step
        fields = (pattern.search(text) for pattern in (_NORM, _MEMORY, _TOKENS, _TFLOPS))
        norm, memory, tokens, tflops = (field[1] if field else None for field in fields)
        self.notes.take({"reserved_gib": memory})
        rate, paused_ms = self._without_saves(grouped(tokens), covers)
        return LoggedStep(
            iteration,
            global_batch=self._batch,
            nan=int(nan),
            loss=None if no_stage else loss,
            grad_norm=number(norm),
            iterations=max(covers, 0),
            device_tokens_per_s=rate,
            tflop_per_s=grouped(tflops),
            paused_ms=paused_ms,
        )

    def _without_saves(self, rate: float | None, covers: int) -> tuple[float | None, float]:
        """Return the rate of a line without the checkpoints in its time, and how long they took
        (ms): nothing is taken out where the log does not say what that time is.
        """
        if not self._saved:
            return rate, 0.0
        saved_ms, self._saved = max(self._saved.values()) * 1000, {}
        sizes = (
            whole_number(self.notes.facts.get(key)) or 0 for key in (TOKENS_PER_SAMPLE, DEVICES)
        )
        length, devices = sizes
        if not (saved_ms and rate and devices and covers > 0):
            return rate, 0.0
        whole_ms = covers * self._batch * length / devices / rate * 1000
        if saved_ms >= whole_ms:
            return rate, 0.0
        return rate * whole_ms / (whole_ms - saved_ms), saved_ms


def _rank(text: bytes, at: int) -> bytes:
    """Return the name of the rank that printed a line; empty where it has none."""
    rank = _RANK.search(text, line_start(text, at, max(0, at - BEFORE)), at)
    return rank[1] if rank else b""
