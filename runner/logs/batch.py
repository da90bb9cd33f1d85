"""Steps as columns: what a parser finds in one block of a log.

A log of a gigabyte can hold millions of steps, so they travel as arrays and are reduced block by
block (summary.py); only `Batch.intervals` makes objects of them, for runs of a campaign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from runner.logs.numbers import LARGEST_QUANTITY
from runner.terms.record import Interval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Figures(NamedTuple):
    """What else a trainer worked out itself, of one device: TFLOP/s, J an iteration."""

    tflop_per_s: float | None = None
    energy_j: float | None = None


NO_FIGURES = Figures()
Value = TypeVar("Value", Figures, float | None)
_Read = Callable[[slice], list[Value]]


@dataclass(frozen=True)
class Batch:
    """Steps in the order of the log. NaN in a float column means that the line does not say.

    `iteration` counts from 1; `iterations` is what the line covers, 0 where a run begins and
    nothing says how long its first window is: then it may be all of them. `step_time_ms`,
    `samples_per_s` and `global_batch` (0: not on the line) are as in `records.Interval`. `skipped`
    and `nan` count iterations by the line itself, `overflows` the OVERFLOW lines since the step
    before. `tokens_per_s` (of the whole job) and `device_tokens_per_s` (of one device) are None for
    lines that never have them, `paused_ms` where no pause was taken out of a time. `losses`,
    `grad_norms` and `figures` are read only when asked for. `unmeasured` counts times and
    rates that are on the lines and measure nothing: see `measured`. `places` is where in the text
    each line stands.
    """

    iteration: Ints
    iterations: Ints
    step_time_ms: Floats
    samples_per_s: Floats
    global_batch: Ints
    skipped: Ints
    nan: Ints
    overflows: Ints
    has_loss: NDArray[np.bool_]
    losses: _Read[float | None]
    grad_norms: _Read[float | None]
    figures: _Read[Figures] | None = None
    unmeasured: int = 0
    tokens_per_s: Floats | None = None
    device_tokens_per_s: Floats | None = None
    paused_ms: Floats | None = None
    places: Ints | None = None

    def __len__(self) -> int:
        return len(self.iteration)

    def rows(self, wanted: NDArray[np.bool_]) -> Batch:
        """Take some of the steps."""
        places = np.flatnonzero(wanted)
        columns: dict[str, Any] = {
            name: column[places]
            for name, column in vars(self).items()
            if isinstance(column, np.ndarray)
        }

        def some(of: _Read[Value]) -> _Read[Value]:
            return lambda rows: [of(slice(at, at + 1))[0] for at in places[rows].tolist()]

        return replace(
            self,
            **columns,
            losses=some(self.losses),
            grad_norms=some(self.grad_norms),
            figures=some(self.figures) if self.figures else None,
        )

    def last_loss(self) -> float | None:
        """Return the last loss that is on a line."""
        rows = np.flatnonzero(self.has_loss)
        return self.losses(slice(int(rows[-1]), int(rows[-1]) + 1))[0] if len(rows) else None

    def intervals(self) -> Iterator[Interval]:
        """Yield the steps as objects, with the skipped iterations that the lines
        themselves count.
        """
        for row in zip(
            self.iteration.tolist(),
            self.iterations.tolist(),
            self.step_time_ms.tolist(),
            self.samples_per_s.tolist(),
            self.losses(slice(None)),
            self.grad_norms(slice(None)),
            self.skipped.tolist(),
            self.nan.tolist(),
            self.global_batch.tolist(),
            [0.0] * len(self) if self.paused_ms is None else self.paused_ms.tolist(),
            self.figures(slice(None)) if self.figures else [NO_FIGURES] * len(self),
            *map(self._optional, (self.tokens_per_s, self.device_tokens_per_s)),
            strict=True,
        ):
            iteration, covers, time_ms, rate, loss, norm, skips, nan, batch, paused, own, *rest = (
                row
            )
            time = time_ms if time_ms == time_ms else None
            rate = rate if rate == rate else None
            if rate is None and time and batch:
                rate = batch * 1000 / time
            elif time is None and rate and batch and rest[0]:  # a line that has a rate alone
                time = batch * 1000 / rate
            covers = covers or iteration
            more = (*own, *rest, batch or None, paused)
            yield Interval(iteration, covers, time, rate, loss, norm, skips, nan, *more)

    def _optional(self, column: Floats | None) -> list[float | None]:
        if column is None:
            return [None] * len(self)
        return [value if value == value else None for value in column.tolist()]


@dataclass
class LoggedStep:
    """One step of a parser that reads line by line; None means that the line does not say."""

    iteration: int
    step_time_ms: float | None = None
    samples_per_s: float | None = None
    global_batch: int = 0
    skipped: int = 0
    nan: int = 0
    overflows: int = 0
    loss: float | None = None
    grad_norm: float | None = None
    iterations: int = 0
    tokens_per_s: float | None = None
    device_tokens_per_s: float | None = None
    figures: Figures = NO_FIGURES
    paused_ms: float = 0.0  # taken out of the line's time


@dataclass
class Windows:
    """How many iterations a line covers: the distance from the line before, in the same run."""

    last: int = 0
    log_interval: int = 0  # by the trainer's own print of its arguments

    def begins(self, iteration: Ints) -> NDArray[np.bool_]:
        """Return where a run begins, before `cover` has seen the same lines."""
        before = np.concatenate(([self.last], iteration[:-1]))
        begins: NDArray[np.bool_] = (iteration <= before) | (before == 0)
        return begins

    def cover(self, iteration: Ints) -> Ints:
        """Return the distances; 0 where a run begins and nothing says how long its window is."""
        if not len(iteration):
            return np.zeros(0, np.int64)
        before = np.concatenate(([self.last], iteration[:-1]))
        covers = iteration - before
        begins = self.begins(iteration)
        self.last = int(iteration[-1])
        if begins.any():
            known = np.minimum(iteration, self.log_interval)
            covers = np.where(begins, known, covers)
        return covers


def measured(column: Floats) -> tuple[Floats, int]:
    """Return times or rates with NaN for what measures nothing (zero, less than that, or what no
    run has), and how many those were.
    """
    odd = (column <= 0) | (column > LARGEST_QUANTITY)
    count = int(odd.sum())
    return (np.where(odd, np.nan, column) if count else column), count


def unmeasured(count: int) -> str:
    """Say to people what `measured` took out."""
    what = "1 time or rate" if count == 1 else f"{count} times or rates"
    return f"{what} on the lines that are no number above 0 (up to {LARGEST_QUANTITY:g})"


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def from_rows(rows: Sequence[LoggedStep], windows: Windows) -> Batch:
    """Turn rows into columns."""
    iteration = np.array([row.iteration for row in rows], np.int64)
    covers = windows.cover(iteration)
    own = np.array([row.iterations for row in rows], np.int64)
    losses = [row.loss for row in rows]
    norms = [row.grad_norm for row in rows]
    time_ms, odd_times = measured(_floats([row.step_time_ms for row in rows]))
    rate, odd_rates = measured(_floats([row.samples_per_s for row in rows]))
    tokens, odd_tokens = measured(_floats([row.tokens_per_s for row in rows]))
    device_tokens, odd_each = measured(_floats([row.device_tokens_per_s for row in rows]))
    figures = [row.figures for row in rows]
    return Batch(
        iteration=iteration,
        iterations=np.where(own > 0, own, covers),
        step_time_ms=time_ms,
        samples_per_s=rate,
        global_batch=np.array([row.global_batch for row in rows], np.int64),
        skipped=np.array([row.skipped for row in rows], np.int64),
        nan=np.array([row.nan for row in rows], np.int64),
        overflows=np.array([row.overflows for row in rows], np.int64),
        has_loss=np.array([loss is not None for loss in losses], np.bool_),
        losses=lambda rows: losses[rows],
        grad_norms=lambda rows: norms[rows],
        figures=lambda rows: figures[rows],
        unmeasured=odd_times + odd_rates + odd_tokens + odd_each,
        tokens_per_s=tokens,
        device_tokens_per_s=device_tokens,
        paused_ms=np.array([row.paused_ms for row in rows], np.float64),
    )
