"""The newest step of a growing log, from its last bytes: for the live view, in milliseconds."""

from __future__ import annotations

from pathlib import Path

from runner.lines import tail
from runner.parsers.families import KINDS, kinds_of
from runner.parsers.text import whole_lines
from runner.records import Interval

TAILS = (1 << 15, 1 << 18, 1 << 21)  # bytes; more is read only where less has no step


def latest_step(path: Path, system: str | None = None) -> Interval | None:
    """The last step in the last 2 MiB of a log; None where there is none."""
    for size in TAILS:
        text = tail(path, size)
        for kind in kinds_of(system):
            parser, step = KINDS[kind].make(), None
            for block in whole_lines([text]):
                batch = parser.feed(block)
                if batch is not None:
                    *_, step = batch.intervals()
            if step is not None:
                return step
        if len(text) < size // 2:
            return None
    return None
