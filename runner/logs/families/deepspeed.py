"""DeepSpeed's own lines, printed on rank 0: what is left where Megatron's line is on another node.

Three kinds, the best first; each is a parser of its own:

* pipeline engine (0.6.0 runtime/pipe/engine.py:339-342, 0.8.0 :355-358)
  `steps: 2 loss: 12.6157 iter time (s): 2.673 samples/sec: 95.775`; newer ones put more losses in
  the middle;
* throughput timer (0.6.0 utils/timer.py:182 `0/10, SamplesPerSec=..`, 0.8.0 :197
  `epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=.., CurrSamplesPerSec=..`, and a
  third form `0/10, RunningAvgSamplesPerSec=..`). Where it counts one number, those are micro steps
  (0.6.0 utils/timer.py:173, 0.7.4 :187): `gradient_accumulation_steps` of them are one step;
* optimizer step (0.6.0 engine.py:2029) `[Rank 0] step=10, skipped=0, lr=[..], mom=[..]`; with
  `step=0`, when the engine is set up (0.6.0 engine.py:295), it is not a step.

Their samples a second come from ds_config's train_batch_size, which need not be what is trained
(document 002: 2048 against 9); a global batch size that the user names replaces it.
"""

import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LOSS, WORD, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, whole_number
from runner.logs.overflow import COUNTER

NPU = Sign(
    (
        *(b"torch_npu", b"/ascend/", b"processgrouphccl", b"hccl_"),
        *(b"npu-smi", b"[npu", b"npu warning", b"npu:0"),
    )
)
# Its name, except that of an option, as in a usage text, and of one that is not set.
DEEPSPEED = Sign(
    (b"deepscale", b"consumed tokens:", b"per iteration (s):"),
    re.compile(rb"\[deepspeed\]|(?<!--)(?<!_)deepspeed(?!\w{0,40}[\])]|=none)"),
)
_CANDIDATES = (
    Candidate("ascend_gpt", "and names NPUs", (NPU,)),
    Candidate(
        "megatron_deepspeed", "(any DeepSpeed trainer prints them: name another with --system)"
    ),
    Candidate("megatron_lm"),
)
# What turns micro steps into steps: the engine's own counter beside the timer's, and until it
# stands there the engine's print of its configuration (0.7.6 config.py:999).
_ACCUMULATION_MARK = b"gradient_accumulation_steps .."
_ACCUMULATION = re.compile(rb"gradient_accumulation_steps \.+ ([1-9]\d{0,8})\s")
UNTIMED = 2  # first steps, which the throughput timer leaves out
_COUNTED = re.compile(rb":log_dist\] \[Rank 0\] step=([1-9]\d{0,8}), ")


class DeepSpeedPipe(LineParser):
    """The pipeline engine's `steps:` lines; newer versions have more losses between its fields."""

    name = "deepspeed_pipe"
    says = "DeepSpeed's `steps: N loss:` lines and no Megatron line"
    candidates = _CANDIDATES
    mentions = (
        Candidate("ascend_gpt", "the log names deepspeed", (DEEPSPEED, NPU)),
        Candidate("megatron_deepspeed", "the log names deepspeed", (DEEPSPEED,)),
        Candidate("ascend_gpt", "the log names npu", (NPU,)),
    )
    loss_kind = "iteration"
    holds = "the mean over its steps; evaluations and checkpoints are not in it"
    own_rate = False
    step = rb"steps: \d{1,9} loss: "
    success = rb"Process \d+ exits successfully"
    marker = b"steps: "
    head = re.compile(
        WORD + rb"steps: (?P<iteration>\d{1,9}) loss: %b(?=[ ,])" % LOSS, re.IGNORECASE
    )
    fields = (
        re.compile(rb"iter time \(s\): (?P<step_time_s>[\d.]+)[ ,]"),
        re.compile(rb"samples/sec: (?P<samples_per_s>[\d.]+)\s"),
    )


class DeepSpeedTimer(LineParser):
    """The throughput timer's lines: the window's own rate, else what two running means make.

    Its memory is the framework's peak, in GB of 2^30 bytes.
    """

    name = "deepspeed_timer"
    says = "DeepSpeed's SamplesPerSec lines and no Megatron line"
    candidates = _CANDIDATES
    own_rate = False
    holds = (
        "the mean over its steps, of 0.6 worked out of two means since the start; evaluations and"
        " checkpoints are not in it"
    )
    step = rb"SamplesPerSec="
    marker = b"SamplesPerSec="
    head = re.compile(
        rb"(?:epoch=\d+/micro_step=\d+/global_step=(\d{1,9})|\b(\d{1,9})/(\d{1,9})), "
        rb"(?:RunningAvg)?SamplesPerSec=([\d.]+),"
    )
    current = re.compile(rb"CurrSamplesPerSec=([\d.]+),")
    memory = re.compile(rb"MaxMemAllocated=(?P<allocated_gib>[\d.]+)GB")
    context = (_ACCUMULATION_MARK, COUNTER)
    _accumulation = 1  # micro steps of a step, by the log
    _counted = 0  # steps by the engine's counter, since the timer's last line
    _mean = (0, 0.0)  # what the mean is of on the line before: steps, and its time

    def look(self, text: bytes, at: int) -> None:
        if match := _ACCUMULATION.match(text, at):
            self._accumulation = whole_number(match[1]) or 1
        elif match := _COUNTED.match(text, at):
            self._counted = whole_number(match[1]) or 0

    def _step(self, epoch: int, micro: int) -> int | None:
        """Return the step that a micro step completes, or None; an epoch counts its own."""
        counted, self._counted = self._counted, 0
        if counted and not epoch and micro >= counted and micro % counted == 0:
            self._accumulation = micro // counted
        steps, remainder = divmod(micro, self._accumulation)
        return None if remainder else steps

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        current = self.current.search(tail)
        if memory := self.memory.search(tail):
            self.notes.take(memory.groupdict())
        iteration, steps = whole_number(head[1]), whole_number(head[3] or head[1]) or 0
        if head[2]:
            iteration = self._step(whole_number(head[2]) or 0, whole_number(head[3]) or 0)
        if not iteration:
            return None
        rate = number(current[1]) if current else self._since_before(steps, head[4])
        return LoggedStep(iteration, samples_per_s=rate)

    def _since_before(self, steps: int, printed: bytes) -> float | None:
        """Return the rate since the line before: printed is the mean since the third step (0.6.0
        utils/timer.py, avg_samples_per_sec).
        """
        mean = number(printed)
        if not mean:
            return None
        now = max(steps - UNTIMED, 1)
        before, time = self._mean if self._mean[0] < now else (0, 0.0)
        self._mean = (now, now / mean)
        took = now / mean - time
        return (now - before) / took if took > 0 else None


class DeepSpeedStep(LineParser):
    """The optimizer's `step=` lines: no time, but skipped steps, counted from the run's start."""

    name = "deepspeed_step"
    says = "DeepSpeed's `step=N, skipped=` lines alone, which hold no time"
    candidates = _CANDIDATES
    own_rate = False
    step = rb"step=[1-9]\d{0,8}, skipped="
    marker = b"skipped="
    head = re.compile(WORD + rb"step=(\d{1,9}), skipped=(\d{1,9}), (?=lr=\[)")
    _skipped = 0

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        iteration, total = (whole_number(text) or 0 for text in head.groups())
        before = self._skipped
        self._skipped = total
        skipped = total - before if total >= before else total
        return LoggedStep(iteration, skipped=skipped) if iteration else None
