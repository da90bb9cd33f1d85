"""One step as a parser reads it from a log: what its line says, and nothing else."""

from dataclasses import dataclass

from runner.logs.numbers import LARGEST_QUANTITY
from runner.terms.record import Interval

_ABOVE_ZERO = ("step_time_ms", "samples_per_s", "tokens_per_s", "device_tokens_per_s")


@dataclass(slots=True)
class LoggedStep:
    """One step of a log; None (0 for `global_batch`) means that the line lacks the value.

    The fields that `Interval` has mean the same here.
    """

    iteration: int  # counted from 1
    step_time_ms: float | None = None
    samples_per_s: float | None = None
    global_batch: int = 0
    skipped: int = 0  # iterations, by the line itself
    nan: int = 0  # likewise
    overflows: int = 0  # skipped iterations by the OVERFLOW lines since the step before
    loss: float | None = None
    grad_norm: float | None = None
    iterations: int = 0  # that the line covers; 0: not known, perhaps all up to it
    tokens_per_s: float | None = None  # of the whole job
    device_tokens_per_s: float | None = None  # of one device
    tflop_per_s: float | None = None  # of one device, by the trainer
    energy_j: float | None = None  # of one device and iteration, by the trainer
    paused_ms: float = 0.0  # taken out of the line's time
    timed: int = 0  # iterations that its time is the mean of, where it covers fewer
    remembers: int = 0  # iterations that its time, a moving average, is made of; 0: what it covers
    unmeasured: int = 0  # times and rates on the line that measure nothing
    offset: int = 0  # in the text that was fed, of the line

    @property
    def covers(self) -> int:
        """How many iterations the line covers; where nothing says so, all up to it."""
        return self.iterations or self.iteration

    def drop_unmeasured(self) -> None:
        """Remove and count times and rates that measure nothing: 0, less, or what no run has."""
        for name in _ABOVE_ZERO:
            value = getattr(self, name)
            if value is not None and not 0 < value <= LARGEST_QUANTITY:
                setattr(self, name, None)
                self.unmeasured += 1

    def interval(self, skipped: int) -> Interval:
        """Return what figures are made of; of time and rate one may follow from the other."""
        time, rate, batch = self.step_time_ms, self.samples_per_s, self.global_batch
        if rate is None and time and batch:
            rate = batch * 1000 / time
        elif time is None and rate and batch and self.tokens_per_s:  # a rate of tokens alone
            time = batch * 1000 / rate
        return Interval(
            iteration=self.iteration,
            iterations=self.covers,
            step_time_ms=time,
            samples_per_s=rate,
            loss=self.loss,
            grad_norm=self.grad_norm,
            skipped=skipped,
            nan=self.nan,
            tflop_per_s=self.tflop_per_s,
            energy_j=self.energy_j,
            tokens_per_s=self.tokens_per_s,
            device_tokens_per_s=self.device_tokens_per_s,
            global_batch_size=batch or None,
            paused_ms=self.paused_ms,
            timed=self.timed,
            remembers=self.remembers,
        )


@dataclass
class Windows:
    """How many iterations a line covers: the distance from the line before, in the same run."""

    previous: int = 0
    log_interval: int = 0  # by the trainer's own print of its arguments

    def begins(self, iteration: int) -> bool:
        """Return whether a run begins with the next line."""
        return not 0 < self.previous < iteration

    def cover(self, iteration: int) -> int:
        """Return the distance; 0 where a run begins and nothing says how long its window is."""
        before, self.previous = self.previous, iteration
        if 0 < before < iteration:
            return iteration - before
        return min(iteration, self.log_interval)


def unmeasured(count: int) -> str:
    """Say to people what `drop_unmeasured` removed."""
    subject = "1 time or rate" if count == 1 else f"{count} times or rates"
    return f"{subject} on the lines that are not numbers above 0 (up to {LARGEST_QUANTITY:g})"
