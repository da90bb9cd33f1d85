"""How long Megatron says that checkpoints took, where its iterations' time holds them.

    time (ms) | save-checkpoint: 6273.14
    (min, max) time across ranks (ms):
        save-checkpoint ................................: (6270.02, 6273.14)

(bigscience 0035f06a megatron/training.py:840; microsoft 7632408b megatron/training.py:1202, and
timers.py:235.) Both begin `interval-time` anew at each logged line alone (:1107), so a checkpoint
is in the line behind it, as an evaluation is, whose time they do not say. NVIDIA's stops that clock
for both since b60ca1a8 (2023-11-22), which prints `evaluate ....` besides; from f427c6f0
(2024-01-24) on its lines have a stamp. Those are left as they are, and so are Primus' and
Megatron-Bridge's.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runner.logs.batch import Floats, Ints
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
        self._untold_ms = 0.0
        self._stopped = False  # whether the clock of the iterations stands meanwhile

    def find(
        self, text: bytes, marks: Sequence[tuple[int, bytes]], steps: Ints, ends: Ints
    ) -> Floats:
        """Return, for each step of a block (where its slash stands, where its line ends), the time
        of checkpoints (ms) in its line's, by the marks that stand in the block.
        """
        told = np.zeros(len(steps))
        if len(steps):
            told[0], self._untold_ms = self._untold_ms, 0.0
        for at, mark in marks:
            if mark == _EVALUATES:
                self._stopped = True
            elif mark in _SAVES and (match := _SAVED.match(text, at)):
                took_ms = quantity(match[1] or match[2]) or 0.0
                row = int(np.searchsorted(steps, at))
                if row < len(steps):
                    told[row] += took_ms
                else:
                    self._untold_ms += took_ms
        for row in np.flatnonzero(told).tolist():
            slash = int(steps[row])
            stamped = _STAMPED.search(text, max(0, slash - 64), slash)
            if self._stopped or stamped or text.find(b"/GPU", slash, int(ends[row])) >= 0:
                told[row] = 0.0
        return told


def taken_out(
    time_ms: Floats, rate: Floats, covers: Ints, paused_ms: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the times of an iteration and the rates without the pauses, and what was taken out:
    nothing where a line does not say what it covers, or took no longer.
    """
    whole_ms = np.nan_to_num(time_ms) * covers
    out: NDArray[np.float64] = np.where(paused_ms < whole_ms, paused_ms, 0.0)
    share = np.divide(whole_ms - out, whole_ms, out=np.ones_like(whole_ms), where=out > 0)
    return time_ms * share, rate / share, out
