"""One figure of a run's counted lines, in constant memory: its mean by work, and its median. Pure.

The mean is work over time, or time over work (runner/figures/run_mean.py has why). Sums are kept
of at most MOST_BATCHES batches of as many lines, neighbours joined when there are more: by these
one knows how far the run's own steps make the mean sure.

Medians are exact: a log prints few different values (one decimal of a millisecond), so how often
each was seen is kept, not the steps. Beyond MOST_VALUES different values they are rounded to five
digits, which bounds the memory and moves a median by less than 0.01 %.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_BATCHES = 512
NEWEST = 4096  # values whose order is known
MOST_VALUES = 200_000


@dataclass
class Distribution:
    """Numbers and how often each was seen."""

    count: int = 0
    _counts: Counter[float] = field(default_factory=Counter)

    def add(self, values: Floats) -> None:
        """Count the numbers that are there (NaN: not there)."""
        self._counts.update(values[~np.isnan(values)].tolist())
        self.count = self._counts.total()
        if len(self._counts) > MOST_VALUES:
            exact, self._counts = self._counts, Counter()
            for value, count in exact.items():
                self._counts[float(f"{value:.5g}")] += count

    def settled(self) -> tuple[Floats, Ints]:
        """Return the different values in their order, and how often each was seen."""
        values = sorted(self._counts)
        return np.array(values), np.array([self._counts[value] for value in values], np.int64)

    def median(self) -> float | None:
        """Return the middle number, or the mean of the two in the middle; None of nothing."""
        if not self.count:
            return None
        values, counts = self.settled()
        middle = [(self.count - 1) // 2, self.count // 2]
        low, high = values[np.searchsorted(counts.cumsum(), middle, "right")].tolist()
        return float(low if low == high else (low + high) / 2)


@dataclass(eq=False)
class Batches:
    """Time and work of neighbouring lines; each batch but the last of its log has as many."""

    time: Floats = field(default_factory=lambda: np.empty(0))
    work: Floats = field(default_factory=lambda: np.empty(0))
    _lines: int = 1  # of a batch
    _room: int = 0  # how many lines the last batch has less

    def add(self, time: Floats, work: Floats) -> None:
        """Add lines behind those that are there."""
        if room := min(self._room, len(time)):
            self.time[-1] += time[:room].sum()
            self.work[-1] += work[:room].sum()
            self._room -= room
        if room < len(time):
            begins = np.arange(room, len(time), self._lines)
            self.time = np.concatenate((self.time, np.add.reduceat(time, begins)))
            self.work = np.concatenate((self.work, np.add.reduceat(work, begins)))
            self._room = (room - len(time)) % self._lines
        while len(self.time) > MOST_BATCHES:
            self._halve()

    def _halve(self) -> None:
        """Join each two neighbours."""
        if len(self.time) % 2:
            self.time, self.work = np.append(self.time, 0.0), np.append(self.work, 0.0)
            self._room += self._lines
        self.time = self.time.reshape(-1, 2).sum(axis=1)
        self.work = self.work.reshape(-1, 2).sum(axis=1)
        self._lines *= 2


@dataclass
class RunningSums:
    """A figure of the counted lines; `rate`: per second."""

    rate: bool = False
    values: Distribution = field(default_factory=Distribution)
    batches: Batches = field(default_factory=Batches)
    newest: Floats = field(default_factory=lambda: np.empty(0), compare=False)

    @property
    def count(self) -> int:
        """How many lines have it."""
        return self.values.count

    def add(self, values: Floats, work: Floats) -> None:
        """Add lines (NaN: it is not there), each the mean over its work."""
        with np.errstate(all="ignore"):
            time = work / values if self.rate else work * values
        there = np.isfinite(time) & (time > 0)
        if not there.all():
            values, work, time = values[there], work[there], time[there]
        self.values.add(values)
        self.batches.add(time, work)
        self.newest = np.concatenate((self.newest, values[-NEWEST:]))[-NEWEST:].copy()

    def mean(self) -> float | None:
        """Return work over time, or time over work; None of nothing."""
        time, work = float(self.batches.time.sum()), float(self.batches.work.sum())
        if not time > 0 or not np.isfinite(time):
            return None
        return work / time if self.rate else time / work

    def median(self) -> float | None:
        """Return the middle line's; None of nothing."""
        return self.values.median()
