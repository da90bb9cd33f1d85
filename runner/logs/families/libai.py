"""LiBai: its line in `log.txt` and on the console, and `metrics.json`. Rank 0 prints.

    eta: 21:00:38  iteration: 19/10000  consumed_samples: 80  total_loss: 9.895
    time: 7.5187 s/iter  data_time: 0.0021 s/iter total_throughput: 0.53 samples/s lr: 1.50e-04

(one line; libai 9fc504c libai/utils/events.py:239-261). Three things mislead:

* `iteration` counts from 0 and is inclusive: 220 iterations, period 100 print 99, 199 and 219.
  Here it counts from 1, as everywhere: 100, 200, 220.
* `time` and `total_throughput` are averages since the third iteration (events.py:216,
  hooks.IterationTimer), not of the window. The window's own time is recovered as the difference of
  the sums, over as many lines as the printed digits need to say it within 5 %; lines between have
  none. Samples a second follow from it and the samples of an iteration.
* `total_loss` is the median of the last 200 iterations (events.py:244), so the loss of the last
  line is one of long before; no line says the last iteration's own.

Until May 2022 it was another line (eecb8660, 2022-03-03, libai/utils/events.py:198-216):

    eta: 0:12:53  iteration: 20/10000  consumed samples: 2560  total_loss: 10.5
    time: 0.0710(1801.97)  data_time: 0.0006  lr: 1.00e-04

(in 2021 `time: 0.0710  data_time: 0.0006  tpt: 1802.0 samples/s`, 8a08e6c4 :201-218), seconds and
samples a second without units, and `iteration` counts from 1 (engine/trainer.py:167).
Its last weeks' count from 0 (8eb67ddd, 2022-04-18, engine/trainer.py:168), so a line's
samples tell, which are those of so many iterations.
"""

import json
import re

from runner.logs.kind import Candidate, Sign
from runner.logs.lines import WORD, LineParser
from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import finite, number, quantity, whole_number

PRECISE = 0.05  # largest error of a recovered time, as a share of it
MEDIAN_OF = 20  # iterations, by its trainer's EventStorage.history
_LIBAI = Sign(
    (
        *(b" libai info", b" libai]", b"libai.", b"/libai/"),
        *(b"lb.utils.", b"lb.engine.", b"lb.data.", b"lb.scheduler", b"lb.models"),
    )
)
_TIME = re.compile(
    rb"(?<!data_)time: (\d+\.(\d+))"
    rb"(?: s/iter|(?P<old>\((?P<rate>\d+\.\d+)\)\s|(?=  (?:data_time|tpt): )))"
)
_RATE = re.compile(rb"(?:total[_ ]throughput|tpt): ([\d.]+) samples/s")
_SAMPLES = re.compile(rb"consumed[_ ]samples: (\d{1,15})\s")
_START = re.compile(rb"Starting training from iteration (\d{1,9})\s")
_UNTIMED = 2  # iterations before `time` begins to be averaged (IterationTimer's warm-up)


class LiBai(LineParser):
    """Lines of log.txt, the console and output.log."""

    name = "libai"
    says = (
        "LiBai's `iteration: N/M  consumed_samples:` lines, which count from 0 (until April 2022"
        " from 1)"
    )
    candidates = (Candidate("libai"),)
    mentions = (Candidate("libai", "the log names libai", (_LIBAI,)),)
    from_zero = True
    loss_kind = "running"
    holds = "the mean over its iterations; evaluations and checkpoints are not in it"
    step = rb"iteration: \d{1,9}/\d{1,9}\s"
    marker = b"iteration: "
    head = re.compile(WORD + rb"iteration: (?P<iteration>\d{1,9})/(?P<of>\d{1,9})(?=\s)")
    fields = (re.compile(rb"total_loss: (?P<loss>\S+)\s"),)
    context = (b"Starting training from iteration ",)
    _start = 0
    _last_iteration = 0
    _old_first = 1  # what lines of early 2022 call a run's first iteration
    _average = (0, 0.0)  # of the last line whose running average was used: iterations, sum (s)

    def look(self, text: bytes, at: int) -> None:
        if match := _START.match(text, at):
            self._start = whole_number(match[1]) or 0

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        row = super().row(head, tail, closed)
        text = tail + b"\n" if closed else tail
        samples = _SAMPLES.search(text)
        if row is None or (samples is None and row.loss is None and not row.nan):
            return None
        time, rate = _TIME.search(text), _RATE.search(text)
        if text.lstrip().startswith(b"consumed samples: ") or (time and time["old"] is not None):
            printed = row.iteration - 1
            first = _counted_from(printed, quantity(samples[1]) if samples else None)
            self._old_first = self._old_first if first is None else first
            row.iteration = printed + 1 - self._old_first
        if row.iteration <= self._last_iteration:
            self._average = (0, 0.0)
            self._start = min(self._start, row.iteration - 1)
        self._last_iteration = row.iteration
        if time:
            self._recover(row, time, quantity(rate[1] if rate else time["rate"]))
        return row

    def _recover(self, row: LoggedStep, time: re.Match[bytes], rate: float | None) -> None:
        """Add the time of the line's own window, where the digits of two averages say it."""
        average_s = quantity(time[1])
        timed = row.iteration - self._start - _UNTIMED
        before, total_s = self._average
        if timed <= before or not average_s:
            return
        covers = timed - before
        mean_s = (average_s * timed - total_s) / covers
        error_s = 0.5 * 10.0 ** -len(time[2]) * (timed + before) / covers
        if mean_s <= 0 or error_s > PRECISE * mean_s:
            return
        self._average = (timed, average_s * timed)
        row.step_time_ms = mean_s * 1000
        if rate:
            samples = rate * average_s  # of an iteration; the printed figures are rounded
            if abs(samples - round(samples)) < 0.02 * samples and round(samples) > 0:
                samples = round(samples)
            row.samples_per_s = samples / mean_s


def _counted_from(printed: int, samples: float | None) -> int | None:
    """Return what a line calls a run's first iteration: its samples are those of so many.

    None where both would do.
    """
    if not printed or samples is None:
        return 0 if samples else None
    from_1, from_0 = samples % printed == 0, samples % (printed + 1) == 0
    return None if from_1 == from_0 else int(from_1)


class LiBaiMetrics(LineParser):
    """metrics.json: one object a line. Its `time` is the median of the last 20 iterations (s)."""

    name = "libai_metrics"
    says = "LiBai's metrics.json objects, which count from 0"
    candidates = (Candidate("libai"),)
    from_zero = True
    loss_kind = "running"
    holds = "the median of the last 20 iterations; evaluations and checkpoints are not in it"
    untimed = (
        "a line's time is the median of its last 20 iterations, and some of those are not counted:"
        " give log.txt beside metrics.json, or run it by bench"
    )
    marker = b'"iteration": '
    head = re.compile(rb"^[^{}]*(\{.*\})\s*$")

    def row(self, head: re.Match[bytes], tail: bytes, closed: bool) -> LoggedStep | None:
        """Read one object, whole or not at all."""
        try:
            content = json.loads(head[1], parse_int=whole_number, parse_float=number)
        except (ValueError, RecursionError):  # the latter of brackets within brackets
            return None
        iteration = content.get("iteration")
        if type(iteration) is not int or "total_loss" not in content:
            return None
        seconds, loss = (_finite(content.get(key)) for key in ("time", "total_loss"))
        return LoggedStep(
            iteration + 1,
            step_time_ms=None if seconds is None else seconds * 1000,
            loss=loss,
            nan=int(loss is None),
            remembers=min(MEDIAN_OF, iteration + 1),
        )


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return finite(value)
