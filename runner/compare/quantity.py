"""One quantity of a cell in two campaigns: worse, better, the same, or nobody can tell. Pure.

A rate or time is judged by the runs of both sides (figures/between_runs.py). It is `same` if a
difference of the threshold would be visible, and it is smaller; it is worse or better if its
interval leaves 0 out, and it is larger. Everything else is `cannot_tell`: with how many repeats a
side it would be told, and why not where repeats do not help. Memory and a last loss have no noise
that runs show: the threshold alone decides.
"""

from dataclasses import dataclass, replace

from runner.figures.between_runs import (
    ONE_RUN,
    STOPPED,
    CellTimes,
    RateDifference,
    of_values,
    paired_difference,
    pairs_to_see,
    rate_difference,
    repeats_to_see,
)
from runner.tables.columns import COLUMNS, Column
from runner.tables.row import Row, run_figure

CANNOT_TELL = "cannot_tell"
NOT_JUDGED = "not_judged"
RSS = "memory_rss_mib"


@dataclass(frozen=True)
class Judging:
    """How differences are judged: `comparisons` as in figures/between_runs.py; `paired`: the runs
    of both sides took turns, so that those of one repeat are a pair.
    """

    comparisons: float = 1.0
    paired: bool = False


BY_RUNS = Judging()


@dataclass(frozen=True)
class Measure:
    """One quantity of a cell on both sides; percent are of the first's."""

    a: float
    b: float
    difference_percent: float
    noise_percent: float | None  # the larger half of the difference's 95 % interval
    threshold_percent: float
    verdict: str
    visible_percent: float | None = None  # the smallest difference seen in 80 of 100 cases
    repeats_needed: int | None = None  # of each side, to see the threshold
    missing: str = ""  # why there is no noise


def measure(
    column: Column,
    a: Row,
    b: Row,
    limit: float,
    judging: Judging = BY_RUNS,
) -> Measure | None:
    """Judge one quantity of two rows of `collect --format json` by a threshold in percent; None
    where a side has none.
    """
    name = column.key
    before, after = a["figures"].get(name), b["figures"].get(name)
    if before is None or after is None or before <= 0:
        return None
    change = (after - before) / before * 100
    if not column.by_runs or after <= 0:
        verdict = word(column, change) if abs(change) > limit else "same"
        return Measure(before, after, change, 0.0, limit, verdict)
    if judging.paired:
        a, b = _pairs(a, b, name)
    times = _times(a, name), _times(b, name)
    difference = _difference(name, *times, judging)
    untold = name == RSS and difference.missing
    return Measure(
        before,
        after,
        change,
        difference.half if difference.interval else None,
        limit,
        NOT_JUDGED if untold else _verdict(column, change, difference, limit),
        difference.visible_percent,
        _to_see(*times, limit, judging) if limit and difference.missing in ("", ONE_RUN) else None,
        difference.missing,
    )


def word(column: Column, change: float) -> str:
    """Return the word for a change in percent: slower, less_memory."""
    return column.words[change * column.better > 0]


def _verdict(column: Column, change: float, difference: RateDifference, limit: float) -> str:
    if difference.real and abs(change) > limit:
        return word(column, change)
    visible = difference.interval is not None and difference.half <= max(limit, abs(change))
    return "same" if visible and abs(change) <= limit else CANNOT_TELL


def _difference(name: str, a: CellTimes, b: CellTimes, judging: Judging) -> RateDifference:
    """Compare b with a: of rates by the times turned over, of all else as it is."""
    compare = paired_difference if judging.paired else rate_difference
    sides = (b, a) if name == "samples_per_s" else (a, b)
    return compare(*sides, comparisons=judging.comparisons)


def _to_see(a: CellTimes, b: CellTimes, limit: float, judging: Judging) -> int | None:
    """Return how many repeats of each side show a difference of the limit."""
    if judging.paired:
        return pairs_to_see(b, a, limit, comparisons=judging.comparisons)
    return repeats_to_see(a, b, limit)


def _pairs(a: Row, b: Row, name: str) -> list[Row]:
    """Return both rows with the runs of those repeats alone of which both have the figure."""
    numbers = [{run["repeat"] for run in row["runs"] if run_figure(run, name)} for row in (a, b)]
    both = set.intersection(*numbers)
    return [
        {**row, "runs": [run for run in row["runs"] if run["repeat"] in both]} for row in (a, b)
    ]


def _times(row: Row, name: str) -> CellTimes:
    """Return the runs' times of a row; of one without runs, its own alone."""
    figures = row["figures"]
    values = [value for run in row["runs"] if (value := run_figure(run, name)) and value > 0]
    if not values:
        return CellTimes((figures[name],), missing=ONE_RUN)
    if name == RSS:
        return of_values(values)
    missing = row["missing"].get("samples_per_s_ci_low", "")
    means = values if name == "step_time_ms" else [1 / value for value in values]
    widening = STOPPED if figures["repeats_until_percent"] else 1.0
    by_steps = min(max(figures["samples_per_s_steps_half_percent"] or 0.0, 0.0), 1000.0) / 100
    times = of_values(means)
    missing = missing or times.missing
    return replace(times, open_by_steps=by_steps, missing=missing, widening=widening)


def standard_error_percent(row: Row, name: str) -> float:
    """Return the standard error of a row's figure in percent of it; 0 where runs do not show it."""
    return (
        _times(row, name).error * 100 if COLUMNS[name].by_runs and row["figures"].get(name) else 0.0
    )


def what_it_takes(name: str, untold: Measure) -> str:
    """Say for people what it takes to tell, of a measure that cannot be told."""
    if untold.noise_percent is None and untold.repeats_needed is None:
        return f"{name}: {untold.missing}"
    parts = [untold.missing] if untold.missing else []
    if untold.visible_percent is not None:
        parts.append(f"differences below {untold.visible_percent:.2g} % do not show")
    if untold.repeats_needed:
        least = "at least " if untold.noise_percent is None else "about "
        parts.append(
            f"{least}{untold.repeats_needed} repeats on each side show"
            f" {untold.threshold_percent:g} %"
        )
    return f"{name}: {', '.join(parts)}"
