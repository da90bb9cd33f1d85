"""Scaling efficiency: cells that differ in their device count alone, side by side.

"strong": the global batch stays the same; "weak": it grows with the devices.
"""

from collections.abc import Mapping, Sequence

from runner.figures.between_runs import rate_difference
from runner.figures.measured_cell import MeasuredCell
from runner.tables.formatting import value_text
from runner.tables.row import Row, finished
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
