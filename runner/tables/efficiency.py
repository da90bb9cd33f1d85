"""Scaling efficiency: cells that differ in their device count alone, side by side.

"strong": the global batch stays the same; "weak": it grows with the devices.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.tables.formatting import value_text
from runner.tables.row import Row, Scaling
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


def with_scaling(table: Sequence[Row]) -> list[Row]:
    """Add the scaling efficiency to rows of a series with two device counts or more."""
    scalings: list[dict[str, Scaling]] = [{} for _ in table]
    for kind in ("strong", "weak"):
        members: dict[_Series, dict[int, float]] = {}  # series: {index of row: samples/s a device}
        for index, row in enumerate(table):
            rate, batch = row.samples_per_s_per_device, row.record.global_batch_size
            if row.finished and rate is not None and batch:
                shared = batch if kind == "strong" else batch / row.record.world_size
                members.setdefault(_series(row, str(shared)), {})[index] = rate
        for series, rates in members.items():
            size = {i: (table[i].record.world_size, table[i].record.nodes) for i in rates}
            if len({devices for devices, _ in size.values()}) < 2:
                continue
            base = min(rates, key=lambda i: size[i])
            for index, rate in rates.items():
                scalings[index][kind] = Scaling(
                    efficiency=rate / rates[base],
                    base_cell=table[base].cell,
                    base_devices=size[base][0],
                    series=series,
                )
    return [replace(row, scaling=scaling) for row, scaling in zip(table, scalings, strict=True)]


def _series(row: Row, batch: str) -> _Series:
    """Return what the cells of one scaling series have in common, as text."""
    record = row.record
    same = {**record.parameters, **row.axes}
    key = {name: value_text(value) for name, value in same.items() if name not in SCALED}
    key |= {name: str(size) for name, size in record.parallel.items() if name not in SCALED}
    key |= {
        "campaign": record.campaign,
        "model": str(record.model),
        "micro_batch_size": str(record.micro_batch_size),
        "activation_checkpointing": str(record.activation_checkpointing),
        "batch": batch,
    }
    return tuple(sorted(key.items()))
