"""Steps reduced block by block: the figures of `runner parse`, in constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runner.logs.batch import Batch, Floats, Ints
from runner.logs.nodes import Extent, Warmup
from runner.logs.running_sums import RunningSums


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
    last_loss: float | None = None
    gap: int = 0  # the most iterations between two lines, and
    covers: int = 0  # what the last one covers
    diverged_at: int | None = None  # of the last line that speaks of a loss, where it is no number
    batch_sizes: tuple[int, int] | None = None  # on the lines: the smallest and the largest
    first_counted: bool = False  # the only line with figures: compilation is in them
    derived: bool = False
    derived_time: bool = False
    doubtful: tuple[float, float] | None = None  # a rate on a line, and its batch size / time
    step_time_ms: RunningSums = field(default_factory=RunningSums)
    samples_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    tokens_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    device_tokens_per_s: RunningSums = field(default_factory=lambda: RunningSums(rate=True))
    _first: Batch | None = field(default=None, compare=False, repr=False)

    def add(self, batch: Batch) -> None:
        """Add one block's steps."""
        if self.beyond >= 0:
            batch = batch.rows(batch.iteration > self.beyond)
        if not len(batch):
            return
        iteration = batch.iteration
        before = iteration[0] if self.last_iteration is None else self.last_iteration
        backwards = int((iteration[1:] <= iteration[:-1]).sum())
        backwards += int(self.last_iteration is not None and iteration[0] <= before)
        self.runs += backwards + (self.last_iteration is None)
        if self.first_iteration is None:
            self.first_iteration = int(iteration[0])
        self.gap = max(self.gap, int(np.diff(iteration, prepend=before).max(initial=0)))
        self.covers = int(batch.iterations[-1]) or int(iteration[-1])
        self.last_iteration = int(iteration[-1])
        self.highest_iteration = max(self.highest_iteration, int(iteration.max()))
        self.logged_lines += len(batch)
        self.skipped += int(batch.skipped.sum())
        self.nan += int(batch.nan.sum())
        self.unmeasured += batch.unmeasured
        if batch.paused_ms is not None:
            self.paused_lines += int((batch.paused_ms > 0).sum())
            self.paused_ms += float(batch.paused_ms.sum())
        if sizes := self._sizes(int(batch.global_batch.min()), int(batch.global_batch.max())):
            self.batch_sizes = sizes
        loss = batch.last_loss()
        self.last_loss = self.last_loss if loss is None else loss
        # As figures/learning.py has it: a skipped iteration without a loss says nothing.
        skipped = (batch.skipped > 0) | (batch.overflows > 0)
        speaks = np.flatnonzero(batch.has_loss | ((batch.nan > 0) & ~skipped))
        if len(speaks):
            last = speaks[-1]
            self.diverged_at = int(iteration[last]) if batch.nan[last] > 0 else None
        late = self.warmup.over(iteration, _covers(batch))
        if self._first is None and self.warmup.iterations is None:
            self._first = batch.rows(np.arange(len(batch)) == 0)
        self._times(batch, late)

    def count_first(self) -> None:
        """Count the first line where no other has figures, and nobody says what is warm-up."""
        rates = (self.samples_per_s, self.tokens_per_s, self.device_tokens_per_s)
        if self._first is not None and not any(seen.seen for seen in (self.step_time_ms, *rates)):
            self.first_counted = True
            self._times(self._first, np.ones(1, np.bool_))

    def _sizes(self, smallest: int, largest: int) -> tuple[int, int] | None:
        least, most = self.batch_sizes or (smallest, largest)
        return (min(least, smallest), max(most, largest)) if largest else self.batch_sizes

    def _times(self, batch: Batch, late: NDArray[np.bool_]) -> None:
        size = np.where(batch.global_batch > 0, batch.global_batch, self.global_batch_size or 0)
        rate = self._rate(batch, size)
        time = self._time(batch, size, rate)
        count = int(late.sum())
        self.counted_lines += count
        iterations = np.maximum(_covers(batch), 1).astype(np.float64)
        samples = iterations * np.maximum(size, 1)
        for column, work, seen in (
            (time, iterations, self.step_time_ms),
            (rate, samples, self.samples_per_s),
            (batch.tokens_per_s, samples, self.tokens_per_s),
            (batch.device_tokens_per_s, samples, self.device_tokens_per_s),
        ):
            if column is not None and count == len(batch):
                seen.add(column, work)
            elif column is not None:
                seen.add(column[late], work[late])

    def _rate(self, batch: Batch, size: Ints) -> Floats:
        """Return samples a second: the log's, else from the batch size on the line or the
        user's.
        """
        own = batch.samples_per_s
        if self.global_batch_size and not self.own_rate:
            own = np.full(len(batch), np.nan)
        missing = np.isnan(own)
        if not missing.any():
            self._doubt(batch, own)
            return own
        derived = _quotient(size * 1000, batch.step_time_ms)
        self.derived = self.derived or bool((missing & ~np.isnan(derived)).any())
        return np.where(missing, derived, own)

    def _time(self, batch: Batch, size: Ints, rate: Floats) -> Floats:
        """Return ms an iteration: the log's, else from the batch size and samples a second."""
        own = batch.step_time_ms
        missing = np.isnan(own)
        if not (missing.any() and self.own_rate):
            return own
        derived = _quotient(size * 1000, rate)
        self.derived_time = self.derived_time or bool((missing & ~np.isnan(derived)).any())
        return np.where(missing, derived, own)

    def _doubt(self, batch: Batch, own: Floats) -> None:
        """Keep a printed rate that is far from what its line says otherwise, if most are."""
        derived = _quotient(batch.global_batch * 1000, batch.step_time_ms)
        known = np.flatnonzero((derived > 0) & (own > 0))
        if self.doubtful is None and len(known):
            ratio = own[known] / derived[known]
            if not 0.5 <= np.median(ratio) <= 2:
                odd = known[np.flatnonzero((ratio < 0.5) | (ratio > 2))[0]]
                self.doubtful = (float(own[odd]), float(derived[odd]))

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

    def follow(self, other: LogTotals) -> None:
        """Put another log of the same run behind this one."""
        if other.first_iteration is None:
            return
        joins = self.last_iteration is not None and other.first_iteration > self.last_iteration
        self.runs += other.runs - joins
        self.first_iteration = (
            other.first_iteration if self.first_iteration is None else self.first_iteration
        )
        self.last_iteration = other.last_iteration
        self.gap, self.covers = max(self.gap, other.gap), other.covers
        self.highest_iteration = max(self.highest_iteration, other.highest_iteration)
        self.logged_lines += other.logged_lines
        self._first = self._first or other._first
        self.counted_lines += other.counted_lines
        self.skipped += other.skipped
        self.nan += other.nan
        self.unmeasured += other.unmeasured
        self.paused_lines += other.paused_lines
        self.paused_ms += other.paused_ms
        if other.last_loss is not None or other.diverged_at is not None:
            self.diverged_at = other.diverged_at
        self.last_loss = self.last_loss if other.last_loss is None else other.last_loss
        if other.batch_sizes:
            self.batch_sizes = self._sizes(*other.batch_sizes)
        self.derived = self.derived or other.derived
        self.derived_time = self.derived_time or other.derived_time
        self.doubtful = self.doubtful or other.doubtful
        self.step_time_ms.merge(other.step_time_ms)
        self.samples_per_s.merge(other.samples_per_s)
        self.tokens_per_s.merge(other.tokens_per_s)
        self.device_tokens_per_s.merge(other.device_tokens_per_s)


def _covers(batch: Batch) -> Ints:
    """Return the iterations of each line; where nothing says so, all up to it."""
    return np.where(batch.iterations > 0, batch.iterations, batch.iteration)


def _quotient(samples: Ints, by: Floats) -> Floats:
    """Divide; NaN where there is no size, or nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(samples > 0, samples / by, np.nan)
    quotient[~np.isfinite(quotient)] = np.nan
    return quotient
