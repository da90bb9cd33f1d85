"""Hugging Face's Trainer: an object of Python a log step, and tqdm's bar, from rank 0.

    {'loss': '6.153', 'grad_norm': '0.876', 'learning_rate': '5e-05', 'epoch': '0.08333'}
     12%|█▎        | 5/40 [00:00<00:02, 13.91it/s]

(transformers 5.23 trainer_callback.py:673-690; to 4.x numbers without quotes.) What misleads:

* the object does not say its step, and the bar before it may be steps behind (tqdm draws ten times
  a second at most). tqdm takes the bar away, writes the object and draws the bar again, so the bar
  behind it has the step. Without bars (`disable_tqdm`) the epoch says it, where the log has `Num
  update steps per epoch` (5.x, `logging.set_verbosity_info()`) and the epoch's digits are enough;
* with `include_num_input_tokens_seen` an object says `train_runtime`, the seconds since training
  began with all that came between, to four digits. What a line's own time is follows from two of
  them, where they are far enough apart for it to be known within 5 %;
* else the time is the bar's rate, a moving average (runner/logs/tqdm.py): of how many iterations
  is told with it, and a line has none while an evaluation is more than 1 % of it;
* `train_samples_per_second` at the end is of the whole run with its start, evaluations and
  checkpoints, and of all steps even where a run was resumed: no line's rate. It is not read;
* ms-swift's objects (002e6d9a swift/trainers/patcher.py, swift/megatron/callbacks/print.py; as JSON
  in logging.jsonl) say their step and the whole seconds since training began. Their speed is the
  mean since then, with six decimals: steps times that are the seconds, unless it was resumed;
* 5.x prints four digits of each figure; `eval_loss` is an evaluation's, `train_loss` a mean of all.
"""

import math
import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import PRINTED, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import grouped, is_lost, number, whole_number
from runner.logs.run_sizes import TRAIN_ITERS
from runner.logs.tqdm import Average

PRECISE = 20  # units of a runtime's last digit, so that one is 5 %
MOST_BARS = 8  # of different totals: of datasets, evaluations, the training
LONGEST = 2000  # bytes of an object
_OBJECT = re.compile(
    rb"\{'loss': '?%b'?, (?![^{}\r\n]{0,%d}elapsed_time)([^{}\r\n]{0,%d})\}"
    % (PRINTED, LONGEST, LONGEST),
    re.IGNORECASE,
)
_HELD_BACK = re.compile(rb"(\{'loss': [^{}\r\n]{0,%d}\})\r?\n\{'loss': " % LONGEST)
_NORM = re.compile(rb"'grad_norm': '?" + PRINTED + rb"(?=[',]|$)", re.IGNORECASE)
_VALIDATED = re.compile(
    rb"\{'eval_loss': '?" + PRINTED + rb"'?, ([^{}\r\n]{0,%d})\}" % LONGEST, re.IGNORECASE
)
_VALIDATION = re.compile(rb"(?<!\w)'eval_loss': '?" + PRINTED, re.IGNORECASE)
_RUNTIME = re.compile(rb"'train_runtime': '?(\d[\d.]{0,20}(?:e[+-]\d{1,3})?)'?(?=[,}]|$)")
_EPOCH = re.compile(rb"'epoch': '?(\d{1,6}(?:\.(\d{1,20}))?)'?(?=,|$)")
_SIZES = re.compile(
    rb"(Total train batch size|Total optimization steps|Num update steps per epoch)"
    rb"(?: \([^()\r\n]{1,60}\))? = ([\d,]{1,14})\s"
)
_OBJECT_MARK, _EVALUATION_MARK = b"{'loss': ", b"{'eval_"
_SIZE_MARKS = (b"Total train batch", b"Total optimization", b"Num update steps")
_LOSS = re.compile(rb"(?<!\w)'loss': '?" + PRINTED, re.IGNORECASE)
_ELAPSED = re.compile(
    rb"'elapsed_time': '(?:(\d{1,4})d )?(?:(\d{1,2})h )?(?:(\d{1,2})m )?(\d{1,2})s'"
)
_SPEED = re.compile(rb"'train_speed\((iter/s|s/it)\)': '?([\d.]{1,20})")
_GIB = re.compile(rb"'memory\(GiB\)': '?([\d.]{1,20})")
_CANDIDATES = (Candidate("command"),)
_WORDS = Sign((b"***** running training *****", b"transformers/trainer.py", b"llamafactory"))
_DIGITS = 4  # of a figure of 5.x


class HfTrainer(LineParser):
    """The objects of a log with bars: a step is read where the bar behind its object stands."""

    name = "hf_trainer"
    says = "Hugging Face Trainer's objects, each with the bar behind it"
    candidates = _CANDIDATES
    mentions: tuple[Candidate, ...] = (
        Candidate(
            "command",
            "the log has a Hugging Face Trainer's objects, and no progress bar or sizes of an epoch"
            " that say their steps",
            (Sign((b"{'loss': ", b"{'train_runtime': ")),),
        ),
        Candidate("command", "the log names Hugging Face's Trainer", (_WORDS,)),
    )
    loss_kind = "window"
    holds = (
        "the mean since the line before, or tqdm's moving average; missing near evaluations;"
        " checkpoints are in it"
    )
    untimed = (
        "the only time is tqdm's moving average, of which steps that are not counted are more than"
        " 1 %: run it by bench, or with include_num_input_tokens_seen, which logs train_runtime"
    )
    step = rb"\{['\"]loss['\"]: "
    success = rb"\{['\"]train_runtime['\"]: "
    marker = b"<"
    head = re.compile(
        rb"\| {0,9}(\d{1,9})/(\d{1,9}) \[[\d:]{1,12}<[\d:?]{1,12}, {0,9}([\d.]{1,12}|\?)(it/s|s/it)"
    )
    context: tuple[bytes, ...] = (_OBJECT_MARK, _EVALUATION_MARK, *_SIZE_MARKS)
    _object: re.Match[bytes] | None = None
    _waiting = 0  # objects since the last bar
    _validation: float | None = None  # of an evaluation, whose step the next bar says
    _written = False  # since the last bar: the next one is drawn for that
    _runtime = (0, 0.0)  # step and seconds of the last line with a time
    _evaluated = False  # since then

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[bytes, int] = {}
        self._bars: dict[bytes, Average] = {}  # by their totals

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read whole lines; JSON objects, which wrappers print, as those of Python."""
        return super().feed(text.replace(b'"', b"'"))

    def look(self, text: bytes, at: int) -> None:
        """Read an object, that an evaluation was, or a size of the run."""
        self._written |= not text.startswith(_SIZE_MARKS, at)
        if text.startswith(_EVALUATION_MARK, at):
            self._evaluated = True
            for average in self._bars.values():
                average.pause()
            validated = _VALIDATED.match(text, at)
            self._validation = number(validated[1]) if validated else self._validation
        elif text.startswith(_OBJECT_MARK, at):
            # One right behind a bar is of that one (below); two without a bar between them were
            # held back, and no bar says their steps.
            self._waiting += 1 + text.endswith(b"]", 0, at)
            self._object = _OBJECT.match(text, at) if self._waiting == 1 else None
        elif size := _SIZES.match(text, at):
            self.sizes[size[1]] = int(grouped(size[2]) or 0)
            if size[1].startswith(b"Total opt"):
                self.notes.facts[TRAIN_ITERS] = str(self.sizes[size[1]])

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read the object before a bar, as the step of the bar."""
        iteration, total = whole_number(head[1]) or 0, head[2]
        if self._object and iteration:
            self.notes.facts[TRAIN_ITERS] = total.decode()  # no other bar stands behind an object
        if self._validation is not None and self.notes.facts.get(TRAIN_ITERS) == total.decode():
            self.notes.validated(iteration, self._validation)
            self._validation = None
        match, self._object, self._waiting = self._object, None, 0
        written, self._written = self._written, False
        if not written:
            self._drawn(head)
        if match is None or not iteration:
            return None
        return self._timed(self._logged(iteration, match[1], match[2]), head, match[2])

    def _drawn(self, head: re.Match[bytes]) -> None:
        """Note a bar that tqdm drew by itself."""
        average = self._bars.pop(head[2], Average())
        self._bars[head[2]] = average
        if len(self._bars) > MOST_BARS:
            del self._bars[next(iter(self._bars))]
        average.drawn(whole_number(head[1]) or 0, _step_s(head))

    def _timed(self, row: LoggedStep, head: re.Match[bytes], words: bytes) -> LoggedStep:
        """Add the time of a step: of two runtimes, else of the bar's rate."""
        bars = self._bars.get(head[2], Average())
        runtime = _RUNTIME.search(words)
        seconds = number(runtime[1]) if runtime else None
        if runtime and seconds:
            self._of_runtime(row, seconds, _unit(runtime[1], seconds), bars)
        elif (rate := _step_s(head)) and bars.is_of_steps:
            row.step_time_ms = rate * 1000
            row.remembers = row.iteration - bars.since
        return row

    def _of_runtime(self, row: LoggedStep, seconds: float, unit: float, bars: Average) -> None:
        """Add the mean since an earlier line; of the first one since training began, if it did."""
        step, before = self._runtime
        known = (0 < step < row.iteration and seconds >= before) or (not step and bars.from_start)
        if known and seconds - before < PRECISE * unit:
            return
        if known and not self._evaluated:
            row.timed = row.iteration - step
            row.step_time_ms = (seconds - before) * 1000 / row.timed
        self._runtime, self._evaluated = (row.iteration, seconds), False

    def _logged(self, iteration: int, printed: bytes, words: bytes) -> LoggedStep:
        loss, norm = number(printed), _NORM.search(words)
        if loss == 0 and norm and is_lost(norm[1]):
            loss = None  # logging_nan_inf_filter puts 0.0 in place of a NaN (training_args.py)
        return LoggedStep(
            iteration,
            global_batch=self.sizes.get(b"Total train batch size", 0),
            loss=loss,
            grad_norm=number(norm[1]) if norm else None,
            nan=int(loss is None),
        )


class HfTrainerAfterBars(HfTrainer):
    """The objects that a bar stands before, and none behind (`> log 2>&1`): its step is theirs."""

    name = "hf_trainer_after_bars"
    says = "Hugging Face Trainer's objects, each on the line of the bar before it"
    mentions = ()
    head = re.compile(
        rb"\| {0,9}(\d{1,9})/(\d{1,9}) \[[\d:]{1,12}<[\d:?]{1,12}"
        rb"(?:, {0,9}([\d.]{1,12}|\?)(it/s|s/it))?\] {0,200}"
    )
    context = (_EVALUATION_MARK, *_SIZE_MARKS)

    def feed(self, text: bytes) -> list[LoggedStep]:
        """Read whole lines; objects that were held back and written together belong to no bar."""
        self._held_back = {m[1] for m in _HELD_BACK.finditer(text.replace(b'"', b"'"))}
        return super().feed(text)

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read the object behind a bar, of a line that holds no other."""
        self._drawn(head)
        match = _OBJECT.match(tail)
        if not match or match[0] in self._held_back or _OBJECT_MARK in tail[match.end() :]:
            return None
        iteration = whole_number(head[1]) or 0
        self.notes.facts[TRAIN_ITERS] = head[2].decode()
        row = self._logged(iteration, match[1], match[2]) if iteration else None
        return self._timed(row, head, match[2]) if row else None


class HfTrainerEpochs(HfTrainer):
    """The objects of a log without bars: a step is its epoch times the steps of an epoch."""

    name = "hf_trainer_epochs"
    says = "Hugging Face Trainer's objects without bars, whose steps the epochs say"
    mentions = ()
    holds = ""
    untimed = (
        "the log has no bars and no train_runtime: run it by bench, or with"
        " include_num_input_tokens_seen, which logs that"
    )
    marker = _OBJECT_MARK
    head = _OBJECT
    context = (_EVALUATION_MARK, *_SIZE_MARKS)

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read an object, where its epoch is one step's alone."""
        steps_per_epoch, epoch = (
            self.sizes.get(b"Num update steps per epoch"),
            _EPOCH.search(head[2]),
        )
        value = number(epoch[1]) if epoch else None
        if epoch is None or value is None or not steps_per_epoch:
            return None
        decimals = max(len(epoch[2] or b""), _DIGITS - len(str(int(value))))
        iteration, error = round(value * steps_per_epoch), 0.5 * 10.0**-decimals * steps_per_epoch
        certain = (
            error < 0.5 and abs(value * steps_per_epoch - iteration) <= error + 1e-6 * iteration
        )
        if not certain or not iteration:
            return None
        row, runtime = self._logged(iteration, head[1], head[2]), _RUNTIME.search(head[2])
        if runtime and (seconds := number(runtime[1])):
            self._of_runtime(row, seconds, _unit(runtime[1], seconds), Average())
        return row


class MsSwift(HfTrainer):
    """Objects of ms-swift and Megatron-SWIFT, which say their step; bars do not matter."""

    name = "ms_swift"
    says = "ms-swift's objects, which say their step"
    mentions = ()
    holds = "the mean since the line before, or an earlier one; checkpoints are in it"
    untimed = "no two of its lines are 20 s apart: run it by bench"
    step = rb"['\"](?:global_step/max_steps\]?|iteration)['\"]: ['\"]\d"
    marker = b"elapsed_time"
    head = re.compile(
        rb"\{(?=[^{}\r\n]{0,%d}['\[](?:global_step/max_steps\]?|iteration)': "
        rb"'(\d{1,9})/(\d{1,9})')([^{}\r\n]{0,%d})\}" % (2 * LONGEST, 2 * LONGEST)
    )
    context = _SIZE_MARKS
    _by_speed = False  # the last line's seconds are its steps times its speed

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one object; those of an evaluation and of the end are no step."""
        iteration, words = whole_number(head[1]) or 0, head[3]
        self.notes.facts[TRAIN_ITERS] = head[2].decode()
        if validated := _VALIDATION.search(words):
            self._evaluated = True
            self.notes.validated(iteration, number(validated[1]))
        loss = _LOSS.search(words)
        if not loss or not iteration:
            return None
        gib, row = _GIB.search(words), self._logged(iteration, loss[1], words)
        self.notes.take({"reserved_gib": gib[1] if gib else None})
        if clock := _ELAPSED.search(words):
            self._since_start(row, clock, _SPEED.search(words))
        return row

    def _since_start(
        self, row: LoggedStep, clock: re.Match[bytes], speed: re.Match[bytes] | None
    ) -> None:
        days, hours, minutes, s = (whole_number(part) or 0 for part in clock.groups())
        seconds, unit = ((days * 24 + hours) * 60 + minutes) * 60.0 + s, 1.0
        per = number(speed[2]) if speed else None
        whole = row.iteration * (per if speed and speed[1] == b"s/it" else 1 / per) if per else -9.0
        if (abs(whole - seconds) <= 2) != self._by_speed:  # another clock
            self._by_speed, self._runtime = not self._by_speed, (0, 0.0)
        if per and self._by_speed and (fine := 1e-6 * whole / per) < 1:
            seconds, unit = whole, fine
        self._of_runtime(row, seconds, unit, Average())


def _step_s(bar: re.Match[bytes]) -> float | None:
    """Return the seconds of a step by a bar's rate."""
    figure = number(bar[3]) if bar[3] else None
    return figure and (1 / figure if bar[4] == b"it/s" else figure)


def _unit(text: bytes, value: float) -> float:
    """Return what a figure's last digit may stand for: 5.x prints four, and no zeros behind."""
    digits = math.floor(math.log10(value)) - _DIGITS + 1
    return 10.0 ** (digits if b"e" in text else min(digits, -len(text.partition(b".")[2])))
