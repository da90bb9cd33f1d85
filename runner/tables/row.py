"""A row of the comparison table: one cell, as `collect --format json` prints it. Data.

Whatever shows, compares or publishes a result reads rows and nothing below.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, cast

from runner.terms.record import DATA_PARALLEL

PUBLISHABLE = "publishable"


class RowDifference(TypedDict):
    """A figure minus the baseline's: in its unit, and in percent of the baseline's.

    `low` and `high` are the 95 % interval of the percentage, `half` the larger half of it; None
    without one, for the reason in `missing`. `real`: the interval leaves 0 out, as printed, too.
    """

    absolute: float
    percent: float
    low: float | None
    high: float | None
    half: float | None
    real: bool
    missing: str


class RowLoss(TypedDict):
    """Whether a cell learns what its baseline does; `same` None where that is not known.

    They differ from iteration `at` on, by `by` (None: NaN) where `tolerance` is noise. `points` are
    how many losses (`of`) were compared; `words` say all of it.
    """

    same: bool | None
    at: int | None
    by: float | None
    tolerance: float | None
    points: int
    of: str
    why_not: str
    words: str


class RowLearning(TypedDict):
    """Whether it needs as much to the target loss; `verdict` None for the reason in `why_not`."""

    verdict: Literal["alike", "slower", "faster"] | None
    p: float | None
    why_not: str
    words: str


class RowComparison(TypedDict):
    """A row against its baseline, the one with the same other axes and AXIS=VALUE.

    `base` is the id of that one's cell, None where there is none. `note` says why there is none or
    no difference, or what to mind about it. `differences` has those of figures, by their keys.
    """

    axis: str
    value: str
    base: str | None
    cell: str | None
    is_baseline: bool
    note: str
    differences: dict[str, RowDifference]
    loss: RowLoss | None
    learning: RowLearning | None


class RowScaling(TypedDict):
    """samples/s per device over that of `base_cell`, the series' smallest device count.

    1.0 is perfect. `low` and `high` are its 95 % interval, None without one; `series` what all
    cells of the series have in common.
    """

    efficiency: float
    low: float | None
    high: float | None
    base_cell: str
    base_devices: int
    series: dict[str, str]


class RowMiddle(TypedDict):
    """A median over the runs and its 95 % interval, as far as they tell it."""

    median: float
    low: float | None
    high: float | None


class RowTarget(TypedDict):
    """What a cell's runs need to a loss, by quantity: iterations, seconds.

    `runs` were asked and `reached` got there, each within so many iterations; `not_reached` says
    which did not.
    """

    loss: float
    runs: int
    reached: int
    within: float
    not_reached: str
    figures: dict[str, RowMiddle]


class RowPublished(TypedDict):
    """What a document printed for the cell."""

    source: str
    hardware: str
    figures: dict[str, float]


class RowExpected(TypedDict):
    """What others reached: ours in percent of it, and in what the conditions differ."""

    percent: float | None
    same: bool
    differences: str
    words: str


class RowModel(TypedDict):
    """A model's own shape, its parameters in billions (of experts the active ones beside all)."""

    shape: dict[str, Any]
    parameters_b: float | None
    active_parameters_b: float | None


class RowFormula(TypedDict):
    """How FLOPs were counted."""

    id: str
    expression: str
    meaning: str
    source: str


class RowResumed(TypedDict):
    """Whether runs went on after a failure as the unbroken one; `same` None: not compared."""

    same: bool | None
    words: str


class RowRun(TypedDict):
    """One run of a cell: how it ended, and its own figures where it gives the cell numbers.

    With a target loss it was reached at `iterations_to_target` (None: not), of the trained ones.
    """

    repeat: int
    attempt: int
    status: str
    reason: str
    log: str
    hosts: list[str]
    seed: int | None
    samples_per_s: float | None
    step_time_ms: float | None
    memory_rss_mib: float | None
    iterations_to_target: int | None
    iterations_trained: int | None
    iterations_per_loss: float | None


class Row(TypedDict):
    """One cell of a campaign.

    `figures` has each figure by its key (the columns are runner/tables/columns.py), None where it
    is not known; `missing` then has the reason. `halves` has half of the 95 % interval of some.
    `numbers_from` says of which runs the figures are, None without any. `verdict` is `publishable`
    or the codes that speak against it, worst first; `verdict_reasons` has each with the reason.
    `hosts` has the nodes of each run, by rank; those that several had, once. `notes` is what its
    logs did not give, or contradict. `faulted`: a run had a fault, or went on after a failure, so
    that samples/s is of its last part.
    """

    campaign: str
    cell: str
    cell_id: str
    system: str
    status: str
    reason: str
    numbers_from: Literal["ok runs", "steps before the run ended"] | None
    verdict: str
    verdict_reasons: dict[str, str]
    model: RowModel | None
    hosts: list[list[str]]
    formula: RowFormula | None
    published: list[RowPublished]
    expected: RowExpected | None
    comparison: RowComparison | None
    scaling: dict[str, RowScaling]
    targets: dict[str, RowTarget]
    resumed: RowResumed | None
    faulted: bool
    notes: list[str]
    axes: dict[str, Any]
    parameters: dict[str, Any]
    parallel: dict[str, int]
    halves: dict[str, float]
    figures: dict[str, Any]
    missing: dict[str, str]
    runs: list[RowRun]


def finished(row: Row) -> bool:
    """Whether its figures are those of runs that ended ok."""
    return row["numbers_from"] == "ok runs"


def log_of(row: Row) -> str:
    """Return the log that a row's numbers come from: of several runs the first that counts, without
    one that which says how the cell ended.
    """
    runs = row["runs"]
    measured = [run for run in runs if run["samples_per_s"] or run["step_time_ms"]]
    ended = [run for run in runs if run["status"] == row["status"]]
    return (measured or ended or runs)[0]["log"]


def run_figure(run: RowRun, name: str) -> float | None:
    """Return a figure of one run: samples_per_s, step_time_ms or memory_rss_mib."""
    found: float | None = cast(Mapping[str, Any], run)[name]
    return found


def axis_names(rows: Sequence[Row]) -> list[str]:
    """Return every axis of the rows, in the order first seen."""
    return list(dict.fromkeys(name for row in rows for name in row["axes"]))


def sizes_named(rows: Sequence[Row]) -> list[str]:
    """List every parallel size that the system of any row names, in the order first seen."""
    return list(dict.fromkeys(name for row in rows for name in row["parallel"]))


def value(row: Row, name: str) -> Any:
    """Return the row's value of an axis: of its axes, else of what it ran with; None without."""
    places = (row["axes"], row["parameters"], row["parallel"], row["figures"])
    return next((place[name] for place in places if name in place), None)


def facts(row: Row) -> dict[str, Any]:
    """Return everything that a cell is known by: its model's shape, parameters, sizes, axes."""
    figures = row["figures"]
    names = ("nodes", "devices_per_node", "micro_batch_size", "global_batch_size", "devices")
    return {
        **(row["model"]["shape"] if row["model"] else {}),
        **row["parameters"],
        **{name: figures[name] for name in names},
        **{name: figures[name] or "" for name in ("date", "device")},
        "system": row["system"],
        **row["parallel"],
        **row["axes"],
    }


def parallel_size(row: Row, name: str) -> int:
    """Return a parallel size; what the system does not name it does not split: 1."""
    return row["parallel"].get(name, 1)


def data_parallel(row: Row) -> int:
    """Return the data-parallel size; all devices where the system does not name it."""
    devices: int = row["figures"]["devices"]
    return row["parallel"].get(DATA_PARALLEL, devices)
