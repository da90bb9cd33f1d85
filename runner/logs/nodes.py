"""Which lines count: the one rule by which `parse` and `collect` read the logs of one run. Pure.

*Of several logs*, the nodes' of one run: they are taken by their first iteration, of those that
begin alike the one with the most lines first. Each adds its lines beyond the highest iteration
that those before it reached. So an iteration that several nodes logged is one line, and a node
that goes on where another ended extends it: 1 to 31 and 20 to 50 are 50 lines.

*Of one log* every line is a logged line: a run that went back to a checkpoint did the work again.

*For the figures* a line counts when all iterations that it covers come after warm-up (`Warmup`).
A line with a skipped iteration (loss-scale overflow) did less work and does not count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """How far one log goes. `highest` is not the last iteration where a run went back."""

    lines: int = 0
    first_iteration: int = 0
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
    logged = [index for index, extent in enumerate(extents) if extent.lines]
    reached, by = 0, None
    for index in sorted(
        logged, key=lambda log: (extents[log].first_iteration, -extents[log].lines)
    ):
        extent = extents[index]
        if by is None or extent.first_iteration > reached:
            yield Share(index)
        else:
            yield Share(index, reached, by)
        if extent.highest > reached:
            reached, by = extent.highest, index


def began_after(iteration: int, covers: int, next_covers: int) -> int:
    """Return the iterations before a run's first line: 5,000 of one that went on from there.

    A log that begins within a run does not say what its first line covers: as much as the next one.
    """
    return iteration - min(covers, next_covers)


@dataclass
class Warmup:
    """Tell which lines come after warm-up, line by line of a log.

    Warm-up are the first `iterations` of a run, counted from where its first line begins. Where a
    line goes back behind the one before it, a run begins again, and warms up again.
    """

    iterations: int
    _last_iteration: int = -1  # iteration of the last line
    _first_line: tuple[int, int] = (0, 0)  # the run's first line: its iteration, what it covers
    _begin: int | None = None  # iterations before the run; None until its second line

    def over(self, iteration: int, covers: int) -> bool:
        """Return whether the next line comes after warm-up."""
        begins = iteration < self._last_iteration or self._last_iteration < 0
        self._last_iteration = iteration
        if begins:
            self._first_line, self._begin = (iteration, covers), None
            return self.iterations == 0
        if self._begin is None:
            self._begin = began_after(*self._first_line, covers)
        return iteration - covers - self._begin >= self.iterations
