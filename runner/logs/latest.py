"""The newest step of a run, from the ends of its growing logs: milliseconds, for the live view."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from runner.base.text import tail
from runner.terms.record import Measurement

TAILS = (1 << 15, 1 << 18, 1 << 21)  # bytes; more is read only where less has no step
Parse = Callable[[Mapping[int, Iterable[bytes]]], Measurement]


def latest(parse: Parse, logs: Mapping[int, Path]) -> Measurement | None:
    """Read what the last 2 MiB of the nodes' logs (node rank to path) say; None where it is no
    step.

    `parse` is a system's own `System.parse`, so that what is shown is what will be counted.
    """
    for size in TAILS:
        ends = {rank: tail(path, size) for rank, path in logs.items()}
        measured = parse({rank: [end] for rank, end in ends.items()})
        if measured.intervals:
            return measured
        if all(len(end) < size // 2 for end in ends.values()):
            return None
    return None
