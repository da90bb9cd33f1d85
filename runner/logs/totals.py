"""Steps reduced block by block: the figures of `runner parse`, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from runner.logs.logged_step import LoggedStep
from runner.logs.nodes import Extent, Warmup
from runner.logs.running_sums import RunningSums
from runner.terms.last_loss import LastLoss


@dataclass
class LogTotals:
    """What the steps of one log say. Which of its lines enter the figures: nodes.py."""

    warmup: Warmup = field(default_factory=lambda: Warmup(None))
    global_batch_size: int | None = None
    own_rate: bool = True
    beyond: int = -1  # only lines of later iterations are looked at
    logged_lines: int = 0
    counted_lines: int = 0
    runs: int = 0
    first_iteration: int | None = None
    last_iteration: int | None = None
    highest_iteration: int = 0
    skipped: int = 0
    nan: int = 0
    unmeasured: int = 0
    paused_lines: int = 0  # out of whose times pauses were taken, of so many ms in all:
    paused_ms: float = 0.0
    batch_sizes: tuple[int, int] | None = None  # on the lines: the smallest and the largest
    loss: LastLoss = field(default_factory=LastLoss)
    gap: int = 0  # the most iterations between two lines, and
    covers: int = 0  # what the last one covers
    first_counted: bool = False  # the only line with figures: compilation is in them
    derived: bool = False
    derived_time: bool = False
    doubtful: tuple[float, float] | None = None  # a rate on a line, and its batch size / time
    step_time_ms: RunningSums = field(default_factory=RunningSums)
    samples_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    tokens_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    device_tokens_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    _first_line: LoggedStep | None = field(default=None, compare=False, repr=False)

    def add(self, steps: Sequence[LoggedStep]) -> None:
        """Add one block's steps."""
        steps = [step for step in steps if step.iteration > self.beyond]
        late = []
        for step in steps:
            self._count(step)
            if self.warmup.over(step.iteration, step.covers):
                late.append(step)
        if steps:
            self.covers = steps[-1].covers
            self._sizes([size for step in steps if (size := step.global_batch)])
            self._times(steps, late)

    def _count(self, step: LoggedStep) -> None:
        iteration, before = step.iteration, self.last_iteration
        if before is None:
            self.first_iteration = before = iteration
            self.runs += 1
            self._first_line = step if self.warmup.iterations is None else None
        elif iteration <= before:
            self.runs += 1
        if iteration - before > self.gap:
            self.gap = iteration - before
        if iteration > self.highest_iteration:
            self.highest_iteration = iteration
        self.last_iteration = iteration
        self.logged_lines += 1
        self.skipped += step.skipped
        self.nan += step.nan
        self.unmeasured += step.unmeasured
        self.paused_lines += step.paused_ms > 0
        self.paused_ms += step.paused_ms
        self.loss.add(step.iteration, step.loss, step.nan, step.skipped or step.overflows)

    def _sizes(self, sizes: Sequence[int]) -> None:
        if sizes := [*sizes, *(self.batch_sizes or ())]:
            self.batch_sizes = min(sizes), max(sizes)

    def count_first(self) -> None:
        """Count the first line where no other has figures, and nobody says what is warm-up."""
        rates = (self.samples_per_s, self.tokens_per_s, self.device_tokens_per_s)
        if self._first_line is not None and not any(
            sums.count for sums in (self.step_time_ms, *rates)
        ):
            self.first_counted = True
            self._times([self._first_line], [self._first_line])

    def _times(self, steps: Sequence[LoggedStep], late: Sequence[LoggedStep]) -> None:
        """Add the times and rates of those of a block's steps that come after warm-up."""
        self._doubt(steps)
        self.counted_lines += len(late)
        rates = [self._rate(step) for step in late]
        times = [self._time(step, rate) for step, rate in zip(late, rates, strict=True)]
        iterations = np.array([max(step.covers, 1) for step in late], np.float64)
        samples = iterations * [max(self._size(step), 1) for step in late]
        for column, work, sums in (
            (times, iterations, self.step_time_ms),
            (rates, samples, self.samples_per_s),
            ([step.tokens_per_s for step in late], samples, self.tokens_per_s),
            ([step.device_tokens_per_s for step in late], samples, self.device_tokens_per_s),
        ):
            sums.add(np.array(column, np.float64), work)

    def _size(self, step: LoggedStep) -> int:
        return step.global_batch or self.global_batch_size or 0

    def _rate(self, step: LoggedStep) -> float | None:
        """Return samples a second: the log's, else from the batch size on the line or the
        user's.
        """
        printed = step.samples_per_s if self.own_rate or not self.global_batch_size else None
        if printed is not None:
            return printed
        derived = _quotient(self._size(step) * 1000, step.step_time_ms)
        self.derived = self.derived or derived is not None
        return derived

    def _time(self, step: LoggedStep, rate: float | None) -> float | None:
        """Return ms an iteration: the log's, else from the batch size and samples a second."""
        if step.step_time_ms is not None or not self.own_rate:
            return step.step_time_ms
        derived = _quotient(self._size(step) * 1000, rate)
        self.derived_time = self.derived_time or derived is not None
        return derived

    def _doubt(self, steps: Sequence[LoggedStep]) -> None:
        """Keep a printed rate that is far from what its line says otherwise, if most are."""
        if self.doubtful is not None or (self.global_batch_size and not self.own_rate):
            return
        rates = [
            (step.samples_per_s, derived)
            for step in steps
            if step.samples_per_s
            and (derived := _quotient(step.global_batch * 1000, step.step_time_ms))
        ]
        if rates and not 0.5 <= median(printed / derived for printed, derived in rates) <= 2:
            self.doubtful = next(
                (printed, derived)
                for printed, derived in rates
                if not 0.5 <= printed / derived <= 2
            )

    @property
    def stalls_percent(self) -> float | None:
        """How much more time the steps took than if each had been the median one, in percent."""
        time = self.step_time_ms
        for above, below in (
            (self.samples_per_s.median(), self.samples_per_s.mean()),
            (time.mean(), time.median()),
        ):
            if above and below:
                return (above / below - 1) * 100
        return None

    @property
    def extent(self) -> Extent:
        """How far the log goes."""
        return Extent(self.logged_lines, self.first_iteration or 0, self.highest_iteration)


def _quotient(samples: int, by: float | None) -> float | None:
    """Divide; None where there is no size, or nothing to divide by."""
    quotient = samples / by if samples and by else None
    return quotient if quotient is None or math.isfinite(quotient) else None
