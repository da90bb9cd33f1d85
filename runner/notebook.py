"""A campaign as a DataFrame: `from runner.notebook import frame`, a notebook's first line."""

from pathlib import Path

from pandas import DataFrame

from runner.archive import archive
from runner.base.paths import DEFAULT_RUNS
from runner.load.records import layout_of, records_of
from runner.tables.build import rows
from runner.tables.machine import to_frame


def frame(
    campaign: str | Path | None = None,
    *,
    runs: str | Path = DEFAULT_RUNS,
    baseline: str | None = None,
) -> DataFrame:
    """Return one row a cell, with the columns of `collect --format csv`, typed.

    `campaign` is a name in `runs`, a folder, or what `export` wrote; without one, the campaign run
    last. `baseline` is AXIS=VALUE, else the matrix's. Units stand in the columns' names; a whole
    number that is missing is NA, another NaN (docs/measures.md). Raises UserError where there is
    no such campaign, axis or value.
    """
    with archive.opened(Path(runs), None if campaign is None else str(campaign)) as source:
        records = records_of(source.campaign, Path.cwd().resolve(), shown=source.shown)
        _, published = layout_of(source.campaign, None)
        baseline = baseline or source.campaign.settings.baseline
    return to_frame(rows(records, baseline, published))
