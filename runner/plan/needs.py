"""What runs are expected to need together: time, memory, and what cannot fit. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from node.time_words import lasts
from runner.base.text import counted


@dataclass(frozen=True)
class Need:
    """What each of some runs of a cell is expected to need; None if unknown.

    `by` is the source: `the estimate`, or the runs that took this long.
    """

    cell: str
    runs: int
    run_s: float | None = None
    by: str = ""
    memory_mib: float | None = None
    train_iters: int | None = None


def time_of(needs: Sequence[Need], time_limit_s: float) -> tuple[float | None, int]:
    """Return the seconds of all runs whose time is known, None without one; how many are not.

    A run takes `time_limit_s` at most.
    """
    seconds = [
        min(need.run_s, time_limit_s) * need.runs
        for need in needs
        if need.run_s is not None and need.runs
    ]
    return sum(seconds) if seconds else None, sum(need.runs for need in needs if need.run_s is None)


def in_words(needs: Sequence[Need], time_limit_s: float, *, side_by_side: bool) -> str:
    """Say `total: 12 runs; about 1.5 h, one after the other; memory of a device up to ...`."""
    runs = sum(need.runs for need in needs)
    seconds, unknown = time_of(needs, time_limit_s)
    parts = [f"total: {counted(runs, 'run')}"]
    if seconds is not None:
        how = "side by side where the queue lets them" if side_by_side else "one after the other"
        parts.append(f"about {lasts(seconds)}" + (f", {how}" if runs - unknown > 1 else ""))
    if unknown:
        which = f" of {unknown} of them" if unknown < runs else ""
        bound = "" if side_by_side else f", at most {lasts(unknown * time_limit_s)} by time_limit_s"
        parts.append(f"time unknown{which}{bound}")
    memory = [(need.memory_mib, need.cell) for need in needs if need.memory_mib is not None]
    if memory:
        most, cell = max(memory)
        parts.append(f"largest memory of a device {most:.0f} MiB, estimated ({cell})")
    return "; ".join(parts)


def too_long(needs: Sequence[Need], time_limit_s: float) -> Iterator[str]:
    """Say of each cell that time_limit_s would end before its train_iters."""
    for need in needs:
        if need.run_s is not None and need.run_s > time_limit_s:
            subject = "it" if need.train_iters is None else f"train_iters {need.train_iters}"
            cure = "" if need.train_iters is None else ", or lower train_iters"
            yield (
                f"warning: cell {need.cell}: {subject} takes about {lasts(need.run_s)} by"
                f" {need.by}, and time_limit_s {time_limit_s:g} ends it before; raise"
                f" time_limit_s{cure}"
            )
