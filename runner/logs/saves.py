"""How long Megatron says that checkpoints took, where its iterations' time holds them.

    time (ms) | save-checkpoint: 6273.14
    (min, max) time across ranks (ms):
        save-checkpoint ................................: (6270.02, 6273.14)

(bigscience 0035f06a megatron/training.py:840; microsoft 7632408b megatron/training.py:1202, and
timers.py:235.) Both begin `interval-time` again at each logged line alone (:1107), so a checkpoint
is in the line behind it, as an evaluation is, whose time they do not say. NVIDIA's stops that clock
for both since b60ca1a8 (2023-11-22), which prints `evaluate ....` besides; from f427c6f0
(2024-01-24) on its lines have a stamp. Those are left as they are, and so are Primus' and
Megatron-Bridge's.
"""

import re

from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import quantity

_SAVES = b"save-checkpoint: ", b"save-checkpoint ......"
_EVALUATES = b"evaluate ............"
MARKS = (*_SAVES, _EVALUATES)
_SAVED = re.compile(
    rb"save-checkpoint(?:: ([\d.]{1,20})| \.{5,40}: (?:\([\d.]{1,20}, )?([\d.]{1,20})\)?)\s"
)
_STAMPED = re.compile(rb"\d\] {1,9}iteration {1,9}\d{1,9}$")


class Saves:
    """The checkpoints of one log, each told with the step that is logged next."""

    def __init__(self) -> None:
        self.untold_ms = 0.0
        self._stopped = False  # whether the clock of the iterations stands meanwhile

    def see(self, text: bytes, at: int) -> None:
        """Read the line of one of MARKS, which begins at `at`."""
        if text.startswith(_EVALUATES, at):
            self._stopped = True
        elif match := _SAVED.match(text, at):
            self.untold_ms += quantity(match[1] or match[2]) or 0.0

    def told_ms(self, before: bytes, tail: bytes) -> float:
        """Return the time of the checkpoints that a step's line holds: what is on it before
        the iterations in all, and behind.
        """
        took, self.untold_ms = self.untold_ms, 0.0
        return 0.0 if self._stopped or _STAMPED.search(before) or b"/GPU" in tail else took


def take_out(step: LoggedStep, paused_ms: float) -> None:
    """Take pauses out of a line's time and rate: nothing where it does not say what it covers, or
    took no longer.
    """
    step.drop_unmeasured()
    whole_ms = (step.step_time_ms or 0.0) * step.iterations
    if step.step_time_ms is None or not 0 < paused_ms < whole_ms:
        return
    share = (whole_ms - paused_ms) / whole_ms
    step.step_time_ms *= share
    if step.samples_per_s is not None:
        step.samples_per_s /= share
    step.paused_ms = paused_ms
