"""Records into rows: the repeats of a cell become one row, then the rows are set side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runner.figures.summary import cell_statistics
from runner.matrix.published import PublishedRow
from runner.tables.baseline import with_baseline
from runner.tables.efficiency import with_scaling
from runner.tables.row import Row, facts
from runner.terms.record import Record


def rows(
    records: Iterable[Record],
    baseline: str | None = None,
    published: Sequence[PublishedRow] = (),
) -> list[Row]:
    """Build one row a cell, in the order of the records.

    `baseline` is AXIS=VALUE; `published` rows stand beside the cells that they name. Raises
    UserError when the baseline names an axis or value that no cell has.
    """
    cells: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        cells.setdefault((record.campaign, record.cell_id, record.cell), []).append(record)
    table = with_scaling([Row(tuple(runs), cell_statistics(runs)) for runs in cells.values()])
    if published:
        table = [
            replace(row, published=tuple(d for d in published if d.stands_beside(facts(row))))
            for row in table
        ]
    return table if baseline is None else with_baseline(table, baseline)
