"""Skipped steps by their OVERFLOW lines: with DeepSpeed often the only sign of them.

DeepSpeed 0.6.0 zero/stage_1_and_2.py:1653 `[deepscale] OVERFLOW! Rank {} Skipping step. Attempted
loss scale: {}, reducing to {}`, 0.8.0 :1763 `[deepspeed] OVERFLOW!`, fused_optimizer `Overflow
detected. Skipping step. Attempted ...` and `fp16 dynamic loss scale overflow! Skipping step. ...`.
Megatron's own counter stays 0 under DeepSpeed (v1.1.5 training.py:338-351). DeepSpeed's counts from
the start of its run: `[Rank 0] step=20, skipped=5, lr=[..` (0.8.0 engine.py:2339).
"""

import re
from collections import Counter

from runner.logs.decoding import line_start
from runner.logs.numbers import whole_number

_MARK = b"Skipping step. Attempted loss scale: "
_LINE = re.compile(rb"(?i:overflow)[^\r\n]{0,40}$")
_RANK = re.compile(rb"[Rr]ank[ _]?(\d{1,9})(?!\d)")
NEAR = 48  # bytes before the mark in which the line says what it is,
BEFORE = 512  # and of which rank
COUNTER = b":log_dist] [Rank 0] step="
MARKS = _MARK, COUNTER
_COUNTED = re.compile(rb":log_dist\] \[Rank 0\] step=\d+, skipped=(\d{1,9}), lr=\[")


class Overflows:
    """Counts skipped steps; every rank may print its own line for the same step."""

    def __init__(self) -> None:
        self._total = 0  # by the rank that tells of most, or by DeepSpeed's counter
        self._by_rank: Counter[bytes] = Counter()
        self._counted = 0  # by DeepSpeed's counter, over all runs in the log
        self._counter = 0  # as it stands
        self._reported = 0

    @property
    def pending(self) -> int:
        """Steps skipped since `untold` was asked last."""
        return self._total - self._reported

    def untold(self) -> int:
        """Return the steps skipped since this was asked last: with the step before."""
        count, self._reported = self.pending, self._total
        return count

    def see(self, text: bytes, at: int) -> None:
        """Read the line of one of MARKS, which begins at `at`."""
        if text.startswith(COUNTER, at):
            if match := _COUNTED.match(text, at):
                now = whole_number(match[1]) or 0
                self._counted += now - self._counter if now >= self._counter else now
                self._counter = now
                self._total = max(self._total, self._counted)
            return
        begin = line_start(text, at, max(0, at - BEFORE))
        if _LINE.search(text, max(begin, at - NEAR), at):
            rank = _last_rank(text, begin, at)
            self._by_rank[rank] += 1
            self._total = max(self._total, self._by_rank[rank])


def _last_rank(text: bytes, begin: int, end: int) -> bytes:
    """Return the digits of the last rank that is named; empty without one."""
    at = text.rfind(b"ank", begin + 1, end)
    while at >= 0:
        if match := _RANK.match(text, at - 1, end):
            return match[1]
        at = text.rfind(b"ank", begin + 1, at)
    return b""
