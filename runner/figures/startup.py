"""How long a cell's runs took until they logged a step, and what of it was compiling. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runner.logs.run_sizes import COMPILE_CACHE
from runner.terms.record import Record

NOT_SEEN = "when the first step was logged is not known"
NOT_SAID = "the log does not say what was compiled"


@dataclass(frozen=True)
class Startup:
    """Of a cell, over the runs that count; None: not known of any of them.

    `first_step_s` is the median of the seconds from the launcher's start to the first logged line
    (known to a poll, about a second), `first_iteration` what that line is of: the last of them, as
    a line speaks of all iterations up to its own. `compile_s` is the median of what the log says;
    `caches` has what each run that says it found in the caches of its compiler, in their order.
    """

    first_step_s: float | None = None
    first_iteration: int | None = None
    compile_s: float | None = None
    caches: tuple[str, ...] = ()


def startup(runs: Sequence[Record]) -> Startup:
    """Return how the runs of a cell started, those that count."""
    firsts = [run.measurement.first_step for run in runs if run.measurement.first_step]
    compiled = [s for run in runs if (s := run.measurement.compile_s) is not None]
    return Startup(
        median(start.seconds for start in firsts) if firsts else None,
        max((start.iteration for start in firsts), default=None),
        median(compiled) if compiled else None,
        tuple(word for run in runs if (word := run.measurement.facts.get(COMPILE_CACHE))),
    )
