"""Records into rows: the repeats of a cell become one row, then the rows are set side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from node.printable import printable
from runner.figures.cell_statistics import CellStatistics, cell_statistics
from runner.figures.goodput import goodput
from runner.figures.target import time_to_target, time_to_validation_target
from runner.matrix.published import PublishedRow
from runner.tables.baseline import with_baseline
from runner.tables.catalogue.every_column import for_machines, for_people, missing, value
from runner.tables.efficiency import with_scaling
from runner.tables.expected import with_expectations
from runner.tables.judged import with_verdicts
from runner.tables.row import Row, facts
from runner.terms.record import Measurement, Record


def rows(
    records: Iterable[Record],
    baseline: str | None = None,
    published: Sequence[PublishedRow] = (),
    *,
    requested: bool = True,
    device_hour: float | None = None,
) -> list[Row]:
    """Build one row per cell, in the order of the records.

    `baseline` is AXIS=VALUE; `published` rows are set beside the cells that they name;
    `device_hour` is the price of one, by which cells cost something. Raises UserError when a
    baseline that was `requested` for names an axis or value that no cell has.
    """
    cells: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        cells.setdefault((record.campaign, record.cell_id, record.cell), []).append(record)
    table = with_scaling(list(map(_row, cells.values())))
    if published:
        table = [
            replace(row, published=tuple(d for d in published if d.stands_beside(facts(row))))
            for row in table
        ]
    if baseline is not None:
        table = with_baseline(table, baseline, requested=requested)
    table = [replace(row, device_hour=device_hour) for row in with_expectations(table)]
    return with_verdicts(list(map(_readable, table)))


def _row(runs: Sequence[Record]) -> Row:
    try:
        targets = time_to_target(runs), time_to_validation_target(runs)
        spent = goodput([run.story for run in runs if run.story])
        return Row(tuple(runs), cell_statistics(runs), *targets, goodput=spent)
    except Exception as error:
        return _unreadable(runs, error)


def _readable(row: Row) -> Row:
    """Return the row, if every format can show it alone; else one that says why it has no figures.

    One run's figures end no table.
    """
    try:
        for column in for_people([row]):
            column.text(row)
        for column in for_machines([row]):
            value(row, column.key)
        facts(row)
        missing(row)
    except Exception as error:
        return _unreadable(row.records, error)
    return row


def _unreadable(runs: Sequence[Record], error: Exception) -> Row:
    reason = f"its figures cannot be shown: {printable(str(error))[:200] or type(error).__name__}"
    row = replace(runs[0], status="unreadable", reason=reason, measurement=Measurement())
    return Row((row,), CellStatistics())
