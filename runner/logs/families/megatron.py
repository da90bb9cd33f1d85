"""Megatron's iteration lines: bigscience, microsoft, NVIDIA and DeepSpeedExamples' v1.1.5.

    iteration        2/      50 | consumed samples: 32 | elapsed time per iteration (ms): 14131.6 |
    ... | global batch size: 16 | lm loss: 1.264968E+01 | ... | number of nan iterations:   0 | ...

Printed by the last rank (bigscience e52bdab megatron/training.py:787-824, microsoft b4d4a0e
:839-875, NVIDIA), by rank 0 in v1.1.5 (training.py:434-454). A value counts only when its ` |`
follows, so that half a line gives half the values and never a wrong one.

Primus (fd1eeabb, primus/backends/megatron/patches/training_log/print_rank_last_patches.py:365-393,
:464, :543) has the same line with `541.9/27030.5`: what this iteration took, and the average since
the first, whose compilation is in it. The first number is taken. Its torchtitan can print such a
line, too (primus/backends/torchtitan/patches/metrics_output_format.py:73-132, which nothing
registers yet): there the time is that of all iterations since the line before.

A checkpoint's time is taken out of the line that holds it (bigscience 0035f06a
megatron/training.py:840; microsoft 7632408b megatron/training.py:1202, and timers.py:235):

    time (ms) | save-checkpoint: 6273.14
    (min, max) time across ranks (ms):
        save-checkpoint ................................: (6270.02, 6273.14)

Both begin `interval-time` again at each logged line alone (:1107), so a checkpoint is in the line
behind it, as an evaluation is, whose time they do not say. NVIDIA's stops that clock for both since
b60ca1a8 (2023-11-22), which prints `evaluate ....` besides; from f427c6f0 (2024-01-24) on its lines
have a stamp. Those are left as they are, and so are Primus' and Megatron-Bridge's.

TFLOP/s and energy are the trainer's own: `throughput per GPU (TFLOP/s/GPU): 210.5 |` and `energy
per GPU (J/iter/GPU): 640.1 |`, with `--log-throughput` and `--log-energy` (core_v0.13.0
megatron/training/training.py:1709, :1718); Primus' `compute per GPU (TFLOP/s/GPU): 210.5 (avg
217.3)`, before 2026-07 `throughput .. 210.5/217.3`; Megatron-Bridge (067f987d
src/megatron/bridge/training/utils/train_utils.py:1049) has a line of rank 0's before the last
rank's, `Step Time : 14.26s GPU utilization: 58.2MODEL_TFLOP/s/GPU`, which is of the iteration whose
time it has.
"""

import re
from collections.abc import Mapping

from runner.logs.families.deepspeed import DEEPSPEED, NPU
from runner.logs.kind import Candidate, Sign
from runner.logs.lines import LineParser
from runner.logs.log_metadata import fact
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import number, quantity, whole_number
from runner.logs.run_sizes import TRAIN_ITERS

# What a label means here. `tpt` is a field that Oneflow patches in (OneAutoTest).
ROLES: Mapping[bytes, str] = {
    b"elapsed time per iteration (ms)": "time_ms",
    b"elapsed time per iteration (s)": "time_s",
    b"samples per second": "rate",
    b"samples/sec": "rate",  # of GPT-NeoX, before the iteration (megatron/logging.py)
    b"tpt": "rate",
    b"global batch size": "batch",
    b"lm loss": "loss",
    b"lm-loss": "loss",
    b"loss": "loss",
    b"grad norm": "norm",
    b"number of skipped iterations": "skipped",
    b"number of nan iterations": "nan",
    b"tokens per GPU (tokens/s/GPU)": "device_tokens",
    b"tokens/s/GPU inst/harmonic mean": "device_tokens",
    b"memory usage/free/total": "window",  # where the time is that of its whole window
    b"throughput per GPU (TFLOP/s/GPU)": "tflops",
    b"compute per GPU (TFLOP/s/GPU)": "tflops",
    b"TFLOPs": "tflops",
    b"energy per GPU (J/iter/GPU)": "energy",
}
_FIELD = re.compile(
    rb"\| *+(%b) *+: *+([^\s|]++) (?:samples/s |\(avg [\d.]+\) {1,2})?+(?=\|)"
    % b"|".join(map(re.escape, ROLES))
)
# A loss by another name, such as GPT-NeoX' `lm_loss`, which prints its keys as they are.
_ANY_LOSS = re.compile(rb"\| *+(?:[A-Za-z][\w -]{0,40}[ _-])?loss *+: *+([^\s|]++) (?=\|)")
ROUNDED_S = 0.00501  # a time with two places of seconds is as near as this,
SHORT_S = 0.0201  # and up to this it says too little
_STEP_TIME = fact(
    "s GPU utilization: ",
    r"Step Time : ([\d.]{1,20})s GPU utilization: ([\d.]{1,20}) ?(?:MODEL_)?TFLOP/s/GPU",
    before=40,
)
_EVALUATES = b"evaluate ............"
_SAVED = re.compile(
    rb"save-checkpoint(?:: ([\d.]{1,20})| \.{5,40}: (?:\([\d.]{1,20}, )?([\d.]{1,20})\)?)\s"
)
_STAMPED = re.compile(rb"\d\] {1,9}iteration {1,9}\d{1,9}$")
# With microseconds core_v0.16.0 and later stamp their lines, and print the first iteration of a run
# without beginning a new window: the next line's figures hold it again (core_v0.18.2
# megatron/training/training.py:2387, :2605, :2688).
_KEPT = re.compile(rb":\d\d\.\d{6}\] {1,9}iteration {1,9}\d{1,9}$")
# What tells the systems apart that print these lines; Megatron core puts the time before it.
_CORE = Sign(
    (b"throughput per gpu (tflop/s/gpu)",),
    re.compile(rb"\d\] iteration {1,9}\d{1,9}/ {0,9}\d{1,9} \|"),
)
_PRIMUS = Sign((b"tokens per gpu (tokens/s/gpu):", b"tokens/s/gpu inst/harmonic mean:"))
_PRIMUS_TITAN = Sign((b"| memory usage/free/total: ",))
_BRIDGE = Sign((b"s gpu utilization: ", b"megatron/bridge", b"megatron.bridge"))
_CORE_PATHS = Sign((b"megatron/core/", b"megatron.core"))
_CONSUMED = Sign((b"| consumed samples: ",))
_ZEROS = Sign((b"| num zeros: ",))
_MEGATRON = Sign((b"pretrain_gpt", b"megatron"))
_ALIKE = "(NVIDIA's, bigscience's and microsoft's lines look alike: name another with --system)"


class Megatron(LineParser):
    """Iteration lines, field by field."""

    name = "megatron"
    says = "Megatron's `iteration N/M |` lines"
    candidates = (
        Candidate(
            "ascend_gpt",
            "and names NPUs (on GPUs the same lines are megatron_deepspeed's)",
            (NPU,),
        ),
        Candidate("command", "as Primus prints torchtitan's steps", (_PRIMUS_TITAN,)),
        Candidate("megatron_core", "as Primus prints them: value/running average", (_PRIMUS,)),
        Candidate("megatron_core", "as Megatron-Bridge prints them", (_BRIDGE,)),
        Candidate("megatron_core", "with the marks of Megatron core", (_CORE,)),
        Candidate(
            "megatron_lm",
            "without `consumed samples`, as v1.1.5 prints them",
            without=(_CONSUMED,),
        ),
        Candidate(
            "megatron_deepspeed",
            "with DeepSpeed's marks (ascend_gpt prints the same on NPUs)",
            (DEEPSPEED,),
        ),
        Candidate(
            "megatron_deepspeed",
            f"with `num zeros`, as bigscience prints them {_ALIKE}",
            (_ZEROS,),
        ),
        Candidate("megatron_core", "with paths of megatron/core", (_CORE_PATHS,)),
        Candidate("megatron_lm", f"with no mark of DeepSpeed {_ALIKE}"),
    )
    mentions = (
        Candidate(
            "megatron_core",
            "the log has Megatron-Bridge's `Step Time` lines, which do not say their iteration: the"
            " last node's log does",
            (Sign((b"s gpu utilization: ",)),),
        ),
        Candidate("megatron_core", "the log names megatron/core", (_CORE_PATHS,)),
        Candidate("megatron_lm", "the log names megatron", (_MEGATRON,)),
    )
    counter = rb"iteration(?<!, iteration) {1,9}(\d{1,9})/"
    step = rb"iteration(?<!, iteration) {1,9}\d{1,9}/ {0,9}\d{1,9} \|"
    loss_kind = "window"
    holds = (
        "the mean over its iterations; evaluations and checkpoints are in it, except Megatron"
        " core's since 2023-11 and checkpoints whose time the log states"
    )
    success = rb"\[after training is done\]|exiting program (?:at iteration|after [\d.]+ minutes)"

    marker = b"iteration"
    head = re.compile(rb"iteration(?<!,.iteration) {1,9}(\d{1,9})/ {0,9}(\d{1,9}) (?=\|)")
    context = (_STEP_TIME.mark, b"save-checkpoint: ", b"save-checkpoint ......", _EVALUATES)
    _saved_ms = 0.0  # of checkpoints, since the last line
    _clock_stops = False  # whether the clock of the iterations stands meanwhile
    _last_tail = b""  # of the last line
    _step_time: re.Match[bytes] | None = None  # Megatron-Bridge's, of the step to come
    _counted_again: tuple[int, int] | None = None  # skipped, nan: the next line holds them, too

    def look(self, text: bytes, at: int) -> None:
        if text.startswith(_STEP_TIME.mark, at):
            self._step_time = _STEP_TIME.found(text, at)
        elif text.startswith(_EVALUATES, at):
            self._clock_stops = True
        elif match := _SAVED.match(text, at):
            self._saved_ms += quantity(match[1] or match[2]) or 0.0

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one line."""
        iteration = whole_number(head[1]) or 0
        if iteration == self.windows.previous and tail.rstrip() == self._last_tail.rstrip():
            return None  # two loggers of Primus' wrote it
        self._last_tail = tail
        self.notes.facts[TRAIN_ITERS] = head[2].decode()
        if not self.notes.first_step:
            self.notes.first_step = _before(head) + head.string[head.end(1) : head.end()] + tail
        ahead = b"|" + _before(head) if b"samples/sec" in _before(head) else b""
        fields = {ROLES[label]: value for label, value in reversed(_FIELD.findall(ahead + tail))}
        if "loss" not in fields and (loss := _ANY_LOSS.search(tail)):
            fields["loss"] = loss[1]
        begins = self.windows.begins(iteration)
        step = LoggedStep(
            iteration,
            iterations=self.windows.cover(iteration),
            global_batch=whole_number(fields.get("batch")) or 0,
            skipped=whole_number(fields.get("skipped")) or 0,
            nan=whole_number(fields.get("nan")) or 0,
            grad_norm=number(fields.get("norm")),
        )
        if begins or self._counted_again:
            self._first_line(step, begins and _KEPT.search(_before(head)) is not None, begins)
        _read_loss(step, fields)
        _read_speed(step, fields)
        saved_ms, self._saved_ms = self._saved_ms, 0.0
        outside = self._clock_stops or b"/GPU" in tail or _STAMPED.search(_before(head))
        if saved_ms and not begins and not outside:  # at its begin the run before it saved
            _take_out(step, saved_ms)
        self._read_own_figures(step, fields)
        return step

    def _read_own_figures(self, step: LoggedStep, fields: Mapping[str, bytes]) -> None:
        """Read what the trainer worked out: on a step's line, else on the `Step Time` before it."""
        if tflops := fields.get("tflops"):
            step.tflop_per_s = quantity(tflops.partition(b"/")[0])
        if energy := fields.get("energy"):
            step.energy_j = quantity(energy)
        own, self._step_time = self._step_time, None
        if own and step.tflop_per_s is None:
            seconds, time_ms = quantity(own[1]), step.step_time_ms
            if seconds and time_ms and abs(seconds - time_ms / 1000) <= ROUNDED_S:
                step.tflop_per_s = quantity(own[2])

    def _first_line(self, step: LoggedStep, repeated: bool, begins: bool) -> None:
        """Read a run's first line, whose figures are in the next line again if `repeated`, or the
        line after such a line.
        """
        again, self._counted_again = (
            self._counted_again,
            (step.skipped, step.nan) if repeated else None,
        )
        if repeated:
            step.iterations = 1
        if again and not begins:
            step.iterations += 1
            step.skipped = max(step.skipped - again[0], 0)
            step.nan = max(step.nan - again[1], 0)


def _before(head: re.Match[bytes]) -> bytes:
    """Return what a line has before its iterations in all."""
    return head.string[max(0, head.end(1) - 80) : head.end(1)]


def _take_out(step: LoggedStep, paused_ms: float) -> None:
    """Take pauses out of a line's time and rate: nothing where it does not say what it covers, or
    took no longer.
    """
    step.drop_unmeasured()
    whole_ms = (step.step_time_ms or 0.0) * step.iterations
    if step.step_time_ms is None or paused_ms >= whole_ms:
        return
    share = (whole_ms - paused_ms) / whole_ms
    step.step_time_ms *= share
    if step.samples_per_s is not None:
        step.samples_per_s /= share
    step.paused_ms = paused_ms


def _read_loss(step: LoggedStep, fields: Mapping[str, bytes]) -> None:
    """Read the loss, and count one that is NaN.

    `if avg > 0.0` drops a NaN loss from the line while "number of nan iterations" stays 0
    (bigscience training.py:802, issue 396). A window of skipped iterations only has no loss either,
    and is not a NaN.
    """
    printed = fields.get("loss")
    step.loss = number(printed)
    idle = 0 < step.skipped >= step.iterations
    if printed is None:
        lost = not idle and whole_number(fields.get("nan")) is not None
    else:
        lost = step.loss is None and not printed[:1].isdigit()  # printed as NAN or INF
    if lost:
        step.nan = max(step.nan, 1)
    if idle and step.loss == 0:  # the sum of no losses
        step.loss = None


def _read_speed(step: LoggedStep, fields: Mapping[str, bytes]) -> None:
    """Read times and rates."""
    step.samples_per_s = _newest(step, fields.get("rate"))
    step.device_tokens_per_s = _newest(step, fields.get("device_tokens"))
    time_ms = _newest(step, fields.get("time_ms"))
    time_s = _newest(step, fields.get("time_s"))
    if time_ms is None and time_s is not None:
        time_ms = _exact_s(time_s, step) * 1000
    if "window" in fields and time_ms is not None:
        covers = step.iterations or int(step.iteration == 1)
        time_ms = time_ms / covers if covers else None
    step.step_time_ms = time_ms


def _newest(step: LoggedStep, value: bytes | None) -> float | None:
    """Read a figure, which the running average may follow; count one that is not a number."""
    if value is None:
        return None
    newest, slash, average = value.partition(b"/")
    figure = number(newest) if not slash or number(average) is not None else None
    step.unmeasured += figure is None
    return figure


def _exact_s(rough: float, step: LoggedStep) -> float:
    """Return the time, of which a line has two places; of a very short one its rate says more.

    bigscience e52bdab megatron/training.py:793-795: samples per second is batch size / that time.
    """
    rate = step.samples_per_s
    exact = step.global_batch / rate if rate and rate > 0 and step.global_batch else rough
    return exact if rough < SHORT_S and abs(exact - rough) <= ROUNDED_S else rough
