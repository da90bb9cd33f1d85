"""Steps reduced block by block: the figures of `runner parse`, in constant memory.

Medians are exact: a log prints few different values (one decimal of a millisecond), so how often
each was seen is kept, not the steps. Beyond MOST_VALUES different values they are rounded to five
digits, which bounds the memory and moves a median by less than 0.01 %.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runner.logs.batch import Batch, Floats, Ints
from runner.logs.nodes import Extent, Warmup

MOST_VALUES = 200_000


@dataclass(eq=False)
class Distribution:
    """Numbers and how often each was seen; the newest wait until they are sorted together."""

    seen: int = 0
    _values: Floats = field(default_factory=lambda: np.empty(0))
    _counts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _waiting: list[Floats] = field(default_factory=list)

    def add(self, values: Floats) -> None:
        """Count the numbers that are there (NaN: not there)."""
        missing = np.isnan(values)
        self._waiting.append(values[~missing] if missing.any() else values)
        self.seen += len(self._waiting[-1])
        if sum(map(len, self._waiting)) > MOST_VALUES:
            self.settled()

    def merge(self, other: Distribution) -> None:
        """Count another log's numbers, too."""
        self.seen += other.seen
        self.settled()
        self._with(*other.settled())

    def settled(self) -> tuple[Floats, Ints]:
        """Return the different values in their order, and how often each was seen."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._with(*np.unique(np.concatenate(waiting), return_counts=True))
        return self._values, self._counts

    def _with(self, values: Floats, counts: Ints) -> None:
        values = np.concatenate((self._values, values))
        counts = np.concatenate((self._counts, counts))
        self._values, self._counts = _together(values, counts)
        if len(self._values) > MOST_VALUES:
            rounded = np.array([float(f"{value:.5g}") for value in self._values.tolist()])
            self._values, self._counts = _together(rounded, self._counts)

    def __eq__(self, other: object) -> bool:
        """Return whether the same numbers were seen as often."""
        if not isinstance(other, Distribution):
            return NotImplemented
        return all(map(np.array_equal, self.settled(), other.settled()))

    def median(self) -> float | None:
        """Return the middle number, or the mean of the two in the middle; None of nothing."""
        if not self.seen:
            return None
        values, counts = self.settled()
        middle = [(self.seen - 1) // 2, self.seen // 2]
        low, high = values[np.searchsorted(counts.cumsum(), middle, "right")].tolist()
        return float(low if low == high else (low + high) / 2)


def _together(values: Floats, counts: Ints) -> tuple[Floats, Ints]:
    """Sort values, each once, with how often it was seen in all."""
    different, place = np.unique(values, return_inverse=True)
    return different, np.bincount(place, counts, len(different)).astype(np.int64)


@dataclass
class LogTotals:
    """What the steps of one log say. Which of its lines enter the medians: nodes.py."""

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
    step_time_ms: Distribution = field(default_factory=Distribution)
    samples_per_s: Distribution = field(default_factory=Distribution)
    tokens_per_s: Distribution = field(default_factory=Distribution)
    device_tokens_per_s: Distribution = field(default_factory=Distribution)
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
        covers = np.where(batch.iterations > 0, batch.iterations, iteration)
        late = self.warmup.over(iteration, covers)
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
        for column, seen in (
            (time, self.step_time_ms),
            (rate, self.samples_per_s),
            (batch.tokens_per_s, self.tokens_per_s),
            (batch.device_tokens_per_s, self.device_tokens_per_s),
        ):
            if column is not None:
                seen.add(column if count == len(batch) else column[late])

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


def _quotient(samples: Ints, by: Floats) -> Floats:
    """Divide; NaN where there is no size, or nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(samples > 0, samples / by, np.nan)
    quotient[~np.isfinite(quotient)] = np.nan
    return quotient
