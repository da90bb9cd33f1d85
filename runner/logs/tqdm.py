"""What the rate on a bar of tqdm's remembers. Pure.

tqdm (4.67 std.py, class EMA) keeps two moving averages, of the steps and of the seconds between
two bars that it draws by itself: SMOOTHING times the newest plus the rest of the average before.
It prints one over the other. A bar that is drawn again, as behind a line that was written, changes
neither. So of all that the averages held k bars ago (1 - SMOOTHING) ** k is in them still, and a
first step of 31 s is more than 1 % of a second's average for 30 bars.
"""

from collections import deque

SMOOTHING = 0.3  # tqdm's default, and Hugging Face's Trainer leaves it so
KEPT = 0.01  # of an average; what weighs less is forgotten
MOST_BARS = 128  # that are known; what is older weighs nothing: 0.7 ** 128


class Average:
    """The moving averages of one bar's steps and seconds, told from what it printed."""

    def __init__(self) -> None:
        self._bars: deque[tuple[int, float, float]] = deque(maxlen=MOST_BARS)  # step, averages
        self._pause = False  # since the last bar there was something that is no step
        self.from_start = False  # its first bar was of step 0
        self._paused = -1  # step of the last bar that has such a thing in its time

    def drawn(self, step: int, step_s: float | None) -> None:
        """Note a bar that tqdm drew by itself: its step, its s per step (None: it says none)."""
        if step < self.last:  # another one begins
            self._bars.clear()
            self._paused = -1
        elif step == self.last and self._bars:
            return
        if not self._bars:
            self.from_start = step == 0
        if step_s is None:
            self._bars.append((step, 0.0, 0.0))
        else:
            # Of a log that begins within a run no more is known than that it was all steps before.
            before = self._bars[-1] if self._bars else (0, float(step), 0.0)
            steps = SMOOTHING * (step - before[0]) + (1 - SMOOTHING) * before[1]
            self._bars.append((step, steps, steps * step_s))
        self._paused = step if self._pause else self._paused
        self._pause = False

    @property
    def last(self) -> int:
        """The step of the newest bar."""
        return self._bars[-1][0] if self._bars else 0

    def pause(self) -> None:
        """Note that something else than steps goes on until the next bar."""
        self._pause = True

    @property
    def is_of_steps(self) -> bool:
        """Whether the newest bar's rate is of steps alone."""
        return not self._pause and self.since >= self._paused

    @property
    def since(self) -> int:
        """The step since which the newest bar's rate is; all before weighs less than KEPT of it."""
        if not self._bars:
            return 0
        _, steps, seconds = self._bars[-1]
        weight = 1.0
        for step, steps_then, seconds_then in reversed(list(self._bars)[:-1]):
            weight *= 1 - SMOOTHING
            if weight * steps_then < KEPT * steps and weight * seconds_then < KEPT * seconds:
                return step
        return 0
