"""The table for machines: every column by name, in full precision, as CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runner.base.escapes import plain
from runner.figures.cell_statistics import runs_that_count
from runner.figures.summary import Summary
from runner.matrix.published import PublishedRow
from runner.tables.catalogue.every_column import asked_for, for_machines, missing, value
from runner.tables.environment_facts import environment_section, facts_as_text
from runner.tables.formatting import axis_text
from runner.tables.row import Row, axis_names
from runner.tables.spreadsheet import csv_text
from runner.terms.cell import SEED
from runner.terms.record import Record

if TYPE_CHECKING:
    from pandas import DataFrame


def to_frame(table: Sequence[Row]) -> DataFrame:
    """Make a typed DataFrame, one row per cell: machine columns, then `axis_<name>` of each axis.

    Whole numbers are Int64, others float64, texts string, yes or no boolean; what is missing is NA
    or NaN. An axis of anything but numbers is text, as a matrix file writes it.
    """
    import pandas as pd  # takes most of a second to import, and only a few outputs need it

    chosen = for_machines(table)
    columns = {column.key: [plain(value(row, column.key)) for row in table] for column in chosen}
    for axis in axis_names(table):
        values = [row.value(axis) for row in table]
        numbers = all(type(value) in (int, float) for value in values)
        columns[f"axis_{axis}"] = values if numbers else [axis_text(row, axis) for row in table]
    return pd.DataFrame(
        {name: pd.array(values, dtype=_dtype(values)) for name, values in columns.items()}
    )


def _dtype(values: Sequence[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if int in kinds and any(abs(v) >= 1 << 63 for v in values if isinstance(v, int)):
        return "object"  # more digits than numpy has
    if kinds <= {int, float}:
        return "Int64" if kinds == {int} else "float64"
    return "boolean" if kinds == {bool} else "string"


def to_csv(table: Sequence[Row]) -> str:
    """Write one line per cell."""
    return csv_text(to_frame(table))


def table_values(
    table: Sequence[Row], published: Sequence[PublishedRow] = (), hidden: str = ""
) -> dict[str, Any]:
    """Return the table as one object, as JSON has it.

        {"schema": 1,
         "campaign": the campaign's name, a list when there are several, null without one,
         "hidden": what ran and the matrix no longer names, in a sentence; empty where nothing is,
         "common": {machine column or axis: value} that all rows share (rows repeat it),
         "formula": {"id", "expression", "meaning", "source"} of model_tflop_per_s_per_device,
                    a list when there are several, null without one,
         "environment": {fact: text} of what the runs ran on, as `compare` tells two of them apart,
         "rows": [{every machine column: number, string, boolean or null,
                   "axes": {axis: value},
                   "parameters": {parameter: value}, each that the cell ran with,
                   "missing": {column: why it is null},
                   "verdict_reasons": {code: why the cell is not publishable},
                   "scaling": {"strong"|"weak": {"efficiency", "base_cell", "base_devices"}},
                   "runs": [{"repeat", "attempt", "status", "reason", "log", "seed", "hosts" by
                             rank, "samples_per_s", "step_time_ms", "memory_rss_mib" of
                             the run (null where it gives the cell no numbers); with a target loss
                             "iterations_to_target" (null: not reached in the
                             "iterations_trained") and "iterations_per_loss"}]}],
         "published": [{"source", "hardware", "cell", "labels", "figures"}] of the documents}

    Times are in ms, memory in MiB, rates of the whole job unless the name says per_device.
    `docs table.json` prints it as a JSON schema; docs/measures.md says how each figure is
    computed.
    """
    campaigns = list(dict.fromkeys(row.record.campaign for row in table))
    columns = for_machines(table)
    rows = [
        {column.key: plain(value(row, column.key)) for column in columns}
        | {
            "axes": plain(row.axes),
            "parameters": plain(row.record.parameters),
            "missing": missing(row),
            "verdict_reasons": row.verdict,
            "scaling": {
                kind: _parts(scaling, "efficiency", "base_cell", "base_devices")
                for kind, scaling in row.scaling.items()
            },
            "runs": [
                _parts(record, "repeat", "attempt", "status", "reason", "log", "hosts")
                | {"seed": record.parameters.get(SEED)}
                | _of_run(row, record)
                | _arrival(row, record.repeat)
                for record in row.records
            ],
        }
        for row in table
    ]
    models = [row.record.model for row in table if row.record.model]
    formulas = [vars(formula) for formula in dict.fromkeys(model.formula for model in models)]
    filters = asked_for(table)
    settings = [
        {**row["axes"], **{column.key: row[column.key] for column in filters}} for row in rows
    ]
    return {
        "schema": 1,
        "campaign": campaigns[0] if len(campaigns) == 1 else campaigns or None,
        "hidden": hidden,
        "common": {
            name: value
            for name, value in (settings[0] if settings else {}).items()
            if all(name in axes and axes[name] == value for axes in settings)
        },
        "formula": formulas[0] if len(formulas) == 1 else formulas or None,
        "environment": facts_as_text(
            environment_section(run for row in table for run in row.records)
        ),
        "rows": rows,
        "published": [
            _parts(row, "source", "hardware", "cell", "labels", "figures") for row in published
        ],
    }


def _of_run(row: Row, record: Record) -> dict[str, float | None]:
    """Return what one run did, of the runs that give the cell's numbers; no others have any."""
    counted = runs_that_count(row.records)[1]
    at = next((index for index, run in enumerate(counted) if run is record), None)
    figures: dict[str, float | None] = {}
    for name in ("samples_per_s", "step_time_ms"):
        summary: Summary | None = getattr(row.statistics, name)
        figures[name] = summary.runs[at] if summary is not None and at is not None else None
    rss = record.measurement.memory_rss_mib
    return figures | {"memory_rss_mib": None if at is None else rss}


def _arrival(row: Row, repeat: int) -> dict[str, Any]:
    """Return where a run reached the target loss, if it was asked and trained to its end."""
    arrivals = row.target.arrivals if row.target else ()
    for arrival in arrivals:
        if arrival.repeat == repeat:
            return {
                "iterations_to_target": arrival.iteration,
                "iterations_trained": arrival.trained,
                "iterations_per_loss": arrival.every,
            }
    return {}


def _parts(item: object, *names: str) -> dict[str, Any]:
    return {name: plain(getattr(item, name)) for name in names}
