"""A campaign as a DataFrame: `from trainbench_cluster import frame`."""

from pathlib import Path

from pandas import DataFrame

from runner.archive import archive
from runner.base.paths import DEFAULT_RUNS
from runner.tables.campaign_reading import read_campaign
from runner.tables.campaign_table import to_frame


def frame(
    campaign: str | Path | None = None,
    *,
    runs: str | Path = DEFAULT_RUNS,
    baseline: str | None = None,
) -> DataFrame:
    """Return one row per cell, with the columns of `collect --format csv`, typed.

    `campaign` is a name in `runs`, a folder, or what `export` wrote; without one, the campaign run
    last. `baseline` is AXIS=VALUE, else the matrix's. Units are in the columns' names; a whole
    number that is missing is NA, another NaN (docs/measures.md). Raises UserError where there is
    no such campaign, axis or value.
    """
    with archive.opened(Path(runs), None if campaign is None else str(campaign)) as source:
        document = read_campaign(
            source.campaign, Path.cwd().resolve(), reader_path=source.shown, baseline=baseline
        )
    return to_frame(document.rows)
