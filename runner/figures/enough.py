"""Whether a cell has been repeated enough: samples/s is known to so many percent. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from runner.figures.cell_statistics import cell_statistics
from runner.terms.cell import FEWEST_REPEATS
from runner.terms.record import NOT_ENDED, Record


class Enough(NamedTuple):
    """Whether a cell needs no further repeat, and how sure its figure is, for people."""

    met: bool
    words: str


def enough(records: Sequence[Record], until_percent: float) -> Enough:
    """Judge a cell by the records of its repeats, three or more.

    A cell without a run that ended ok has enough: more repeats would fail, too. At least three must
    end ok.
    """
    ended = [record for record in records if record.status not in NOT_ENDED]
    good = sum(record.status == "ok" for record in ended)
    repeats = f"{len(ended)} repeats"
    if not good:
        return Enough(True, f"none of {repeats} ended ok")
    times = cell_statistics(ended).times
    if times is None:
        return Enough(True, f"no speed was measured in {repeats}")
    if good < FEWEST_REPEATS:
        return Enough(False, f"{good} of {repeats} ended ok")
    if times.interval is None:
        return Enough(False, f"no interval after {repeats}: {times.missing}")
    half = (times.interval[1] / times.mean - 1) * 100
    return Enough(half <= until_percent, f"± {half:.1f} % after {repeats}")
