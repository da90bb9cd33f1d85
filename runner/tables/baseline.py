"""Rows against a baseline: each with the cell of the same other axes, as signed differences. Cells
that differ in their device count alone, side by side: their scaling efficiency.

"strong": the global batch stays the same; "weak": it grows with the devices.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from runner.base.errors import UserError
from runner.base.suggest import alike, nearest
from runner.figures.between_runs import RateDifference, of_values, rate_difference
from runner.figures.measured_cell import MeasuredCell
from runner.figures.parity import Parity, parity, task_differs
from runner.figures.target import Alike, compare_learning
from runner.tables.columns import THRESHOLDS
from runner.tables.formatting import value_text
from runner.tables.row import (
    Row,
    RowComparison,
    RowDifference,
    RowLearning,
    RowLoss,
    axis_names,
    finished,
    value,
)
from runner.terms.record import DATA_PARALLEL

# What may differ between two cells of one series.
SCALED = frozenset(
    {
        "nodes",
        "devices_per_node",
        "devices",
        "device_ids",
        "processes",
        "world_size",
        DATA_PARALLEL,
        "global_batch_size",
        "gradient_accumulation_steps",
    }
)
_Series = tuple[tuple[str, str], ...]
_Told = TypeVar("_Told", RowLoss, RowLearning)


class Compared(NamedTuple):
    """What a cell was compared with, and what was found: for its verdict."""

    base: MeasuredCell | None = None
    parity: Parity | None = None
    learning: Alike | None = None


def compare_with(
    cells: Sequence[MeasuredCell], table: Sequence[Row], baseline: str, *, requested: bool = True
) -> list[Compared]:
    """Compare each row with its counterpart.

    `baseline` is AXIS=VALUE. Where no cell has that axis or value, a person who asked for it gets a
    UserError; one of the campaign's own leaves a note in place of differences.
    """
    try:
        axis, base_value = _parse(table, baseline)
    except UserError:
        if requested:
            raise
        axis, _, base_value = (side.strip() for side in baseline.partition("="))
    axes = dict.fromkeys(name for cell in cells for name in cell.record.axes)
    other_axes = [name for name in axis_names(table) if name != axis]
    # An axis that a person named may imply the system: a trainer, say.
    told_apart = (
        [other_axes] if "system" in axes else [other_axes, [n for n in other_axes if n != "system"]]
    )

    def key(row: Row, names: Sequence[str]) -> tuple[str, ...]:
        return (row["campaign"], *(value_text(value(row, name)) for name in names))

    bases: list[dict[tuple[str, ...], list[int]]] = [{} for _ in told_apart]
    for at, row in enumerate(table):
        if value_text(value(row, axis)) == base_value:
            for names, by_key in zip(told_apart, bases, strict=True):
                by_key.setdefault(key(row, names), []).append(at)
    compared = []
    for at, row in enumerate(table):
        matches = (by_key.get(key(row, n), []) for n, by_key in zip(told_apart, bases, strict=True))
        found: Sequence[int] = next(filter(None, matches), [])
        row["comparison"] = comparison = _comparison(axis, base_value, is_baseline=at in found)
        if len(found) != 1:
            comparison["note"] = (
                f"{len(found)} cells match {axis}={base_value}"
                if found
                else f"no cell with {axis}={base_value} and the same other axes"
            )
            compared.append(Compared())
        else:
            base = cells[found[0]]
            comparison["base"], comparison["cell"] = base.record.cell_id, base.record.cell
            own = at in found
            compared.append(
                Compared(base)
                if own
                else _compare((cells[at], row), (base, table[found[0]]), comparison)
            )
        _add_figures(row, comparison)
    return compared


def _comparison(axis: str, base_value: str, *, is_baseline: bool) -> RowComparison:
    return {
        "axis": axis,
        "value": base_value,
        "base": None,
        "cell": None,
        "is_baseline": is_baseline,
        "note": "",
        "differences": {},
        "loss": None,
        "learning": None,
    }


def _parse(table: Sequence[Row], baseline: str) -> tuple[str, str]:
    axis, _, base_value = (side.strip() for side in baseline.partition("="))
    if not axis or not base_value:
        raise UserError(f"baseline {baseline!r} should read AXIS=VALUE, for example zero_stage=0")
    names = axis_names(table)
    if axis not in names:
        listed = ", ".join(names) or "none (no cells)"
        raise UserError(
            f"baseline {baseline!r}: no cell has the axis {axis!r}"
            f"{nearest(axis, names)}; axes: {listed}"
        )
    values = list(dict.fromkeys(value_text(value(row, axis)) for row in table))
    for listed in values:
        if alike(base_value, listed):
            return axis, listed
    raise UserError(
        f"baseline {baseline!r}: no cell has {axis}={base_value}"
        f"{nearest(base_value, values)}; values: {', '.join(values)}"
    )


def _compare(
    ours: tuple[MeasuredCell, Row], theirs: tuple[MeasuredCell, Row], comparison: RowComparison
) -> Compared:
    (cell, row), (base, base_row) = ours, theirs
    differs = task_differs(cell.record, base.record, schedule=False)
    learns = compare_learning(cell.target, base.target, differs)
    comparison["learning"] = _told(RowLearning, learns)
    for either in (row, base_row):
        if not finished(either):
            comparison["note"] = f"{either['cell']} has no finished run"
            return Compared(base, learning=learns)
    if _windows_differ(cell, base):
        comparison["note"] = "the two were measured over different iterations"
    ran, base_ran = cell.statistics.times, base.statistics.times
    rss, base_rss = cell.statistics.rss_by_run, base.statistics.rss_by_run
    both = rss and base_rss
    sure = {
        "samples_per_s": rate_difference(ran, base_ran) if ran and base_ran else None,
        "memory_rss_mib": rate_difference(of_values(base_rss), of_values(rss)) if both else None,
    }
    for name in THRESHOLDS:
        figure, base_figure = row["figures"][name], base_row["figures"][name]
        if figure is not None and base_figure:
            comparison["differences"][name] = difference(figure, base_figure, sure.get(name))
    losses = parity(cell.statistics.runs, base.statistics.runs)
    comparison["loss"] = _told(RowLoss, losses)
    return Compared(base, losses, learns)


def difference(ours: float, base: float, sure: RateDifference | None = None) -> RowDifference:
    """Subtract the baseline's figure; `sure` says how certain the percentage is, None: no noise of
    it is known.
    """
    percent = (ours - base) / base * 100
    low, high = (sure and sure.interval) or (None, None)
    return {
        "absolute": ours - base,
        "percent": percent,
        "low": low,
        "high": high,
        "half": sure.half if sure and sure.interval else None,
        "real": bool(sure and sure.real and abs(percent) > sure.half),
        "missing": sure.missing if sure else "",
    }


def _told(kind: type[_Told], found: Parity | Alike | None) -> _Told | None:
    """Return what was found by the keys that a row has for it."""
    if found is None:
        return None
    return cast(_Told, {key: getattr(found, key) for key in kind.__annotations__})


def _add_figures(row: Row, comparison: RowComparison) -> None:
    """Put what was found among the row's figures, and why it was not."""
    figures, differences = row["figures"], comparison["differences"]
    loss, learning = comparison["loss"], comparison["learning"]
    speed = differences.get("samples_per_s")
    figures["samples_per_s_difference_percent"] = speed and speed["percent"]
    judged = loss if loss and loss["same"] is not None else None
    figures["loss_parity"] = judged and ("same" if judged["same"] else "diverges")
    figures["learns"] = learning and learning["verdict"]
    if loss and loss["same"] is None and loss["why_not"]:
        row["missing"]["loss_parity"] = loss["why_not"]
    if learning and learning["verdict"] is None and learning["why_not"]:
        row["missing"]["learns"] = learning["why_not"]


def _windows_differ(cell: MeasuredCell, base: MeasuredCell) -> bool:
    """Say whether other iterations were measured. A warm-up that was found may end elsewhere in
    each run.
    """
    ours, theirs = cell.statistics.window, base.statistics.window
    if cell.statistics.warmup_found and base.statistics.warmup_found and ours and theirs:
        return ours[1] != theirs[1]
    return ours != theirs


def add_scaling(cells: Sequence[MeasuredCell], table: Sequence[Row]) -> None:
    """Add the scaling efficiency to rows of a series with two device counts or more."""
    for kind in ("strong", "weak"):
        members: dict[_Series, dict[int, float]] = {}  # series: {index of row: samples/s a device}
        for index, row in enumerate(table):
            figures = row["figures"]
            rate, batch = figures["samples_per_s_per_device"], figures["global_batch_size"]
            if finished(row) and rate is not None and batch:
                shared = batch if kind == "strong" else batch / figures["devices"]
                members.setdefault(_series(row, str(shared)), {})[index] = rate
        for series, rates in members.items():
            size = {i: (_devices(table[i]), table[i]["figures"]["nodes"]) for i in rates}
            if len({devices for devices, _ in size.values()}) < 2:
                continue
            base = min(rates, key=lambda i: size[i])
            for index, rate in rates.items():
                low, high = _interval(cells, table, index, base) or (None, None)
                table[index]["scaling"][kind] = {
                    "efficiency": rate / rates[base],
                    "low": low,
                    "high": high,
                    "base_cell": table[base]["cell"],
                    "base_devices": size[base][0],
                    "series": dict(series),
                }
    for row in table:
        for kind in ("strong", "weak"):
            scaled = row["scaling"].get(kind)
            row["figures"][f"{kind}_scaling_efficiency"] = scaled and scaled["efficiency"]


def _devices(row: Row) -> int:
    devices: int = row["figures"]["devices"]
    return devices


def _interval(
    cells: Sequence[MeasuredCell], table: Sequence[Row], at: int, base: int
) -> tuple[float, float] | None:
    """Compute the 95 % interval of a cell's efficiency, from the runs of both; None of the base
    itself, and of single runs.
    """
    ours, theirs = cells[at].statistics.times, cells[base].statistics.times
    if at == base or not ours or not theirs:
        return None
    change = rate_difference(ours, theirs).interval
    share = _devices(table[base]) / _devices(table[at]) / 100
    return change and ((100 + change[0]) * share, (100 + change[1]) * share)


def _series(row: Row, batch: str) -> _Series:
    """Return what the cells of one scaling series have in common, as text."""
    same: Mapping[str, object] = {**row["parameters"], **row["axes"]}
    key = {name: value_text(value) for name, value in same.items() if name not in SCALED}
    key |= {name: str(size) for name, size in row["parallel"].items() if name not in SCALED}
    key |= {
        "campaign": row["campaign"],
        "model": value_text(row["model"] and row["model"]["shape"]),
        "micro_batch_size": str(row["figures"]["micro_batch_size"]),
        "activation_checkpointing": str(row["figures"]["activation_checkpointing"]),
        "batch": batch,
    }
    return tuple(sorted(key.items()))
