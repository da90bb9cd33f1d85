"""Which lines count: the one rule by which `parse` and `collect` read the logs of one run. Pure.

*Of several logs*, the nodes' of one run: they are taken by their first iteration, of those that
begin alike the one with the most lines first. Each adds its lines beyond the highest iteration
that those before it reached. So an iteration that several nodes logged is one line, and a node
that goes on where another ended extends it: 1 to 31 and 20 to 50 are 50 lines.

*Of one log* every line is a logged line: a run that went back to a checkpoint did the work again.

*For the medians* a line counts when all iterations that it covers come after warm-up. A line with
a skipped iteration (loss-scale overflow) did less work: `collect` does not count it, `parse`, which
says what a log says, does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Extent:
    """How far one log goes. `highest` is not the last iteration where a run went back."""

    lines: int = 0
    first: int = 0
    highest: int = 0


@dataclass(frozen=True)
class Share:
    """The lines of a log that count: those of iterations beyond `beyond`.

    `log` and `before` are places in what `shares` was given; `before` is the log that has the
    others of its lines, None where all of them count.
    """

    log: int
    beyond: int = -1
    before: int | None = None


def shares(extents: Sequence[Extent]) -> Iterator[Share]:
    """Yield what each log adds, in the order of the run; logs without a line are left out."""
    logged = [place for place, extent in enumerate(extents) if extent.lines]
    reached, by = 0, None
    for place in sorted(logged, key=lambda log: (extents[log].first, -extents[log].lines)):
        extent = extents[place]
        if by is None or extent.first > reached:
            yield Share(place)
        else:
            yield Share(place, reached, by)
        if extent.highest > reached:
            reached, by = extent.highest, place


def after_warmup(iteration: Any, iterations: Any, warmup_iters: int) -> Any:
    """Return whether all iterations that a line covers come after warm-up; of numbers or of
    columns.
    """
    return iteration - iterations >= warmup_iters
