"""A campaign's folder to its document: the one way in for tables, pages and comparisons.

Beside it what a person's own campaigns reached, as references for another one, and how a run ended
by its files alone.
"""

from collections.abc import Iterator
from pathlib import Path

from runner.expect.references import Speed
from runner.folder import names
from runner.folder.attempt import Attempt
from runner.folder.campaign import Campaign
from runner.results.evidence import evidence_of_records, packed_logs
from runner.results.judge import judged
from runner.results.records import layout_of, records_of
from runner.results.samples import looks
from runner.results.window import Seen, times_of_steps
from runner.tables.build import measured
from runner.tables.campaign_document import CampaignDocument
from runner.tables.expected import reference_of
from runner.terms.record import Record

MIB = 1 << 20
PAGE_LOGS_MIB = 5.0  # of whole logs in a page, compressed, unless a person says otherwise


def read_campaign(
    campaign: Campaign,
    relative_to: Path,
    *,
    reader_path: Path | None = None,
    copy_of: Campaign | None = None,
    baseline: str | None = None,
    shape: str | None = None,
    evidence: bool = False,
    tails: bool = True,
    logs_mib: float = 0.0,
    device_hour: float | None = None,
) -> CampaignDocument:
    """Read the campaign; paths of logs begin at `relative_to`.

    `reader_path` is the folder in which readers find the campaign, where that is another than
    the one read here; `copy_of` the campaign of which this one is a copy, which bench may run now.
    `baseline` (AXIS=VALUE) and `shape` go before the matrix's own. With `evidence` each run has its
    commands and, with `tails`, the end of its logs; whole logs are packed up to `logs_mib` MiB of
    gzip together.
    `device_hour` is the price of one, by which cells cost something.

    Raises UserError where the folder holds no campaign, or for an unknown baseline or shape.
    """
    records = records_of(campaign, relative_to, reader_path=reader_path, of=copy_of)
    layout, published = layout_of(campaign, shape)
    runs = (
        evidence_of_records(campaign, records, relative_to, reader_path=reader_path, tails=tails)
        if evidence
        else {}
    )
    cells, rows = measured(
        records,
        baseline or campaign.settings.baseline,
        published,
        requested=baseline is not None,
        device_hour=device_hour,
    )
    return CampaignDocument(
        rows=rows,
        cells=cells,
        title=campaign.settings.title,
        description=campaign.settings.description,
        layout=layout,
        published=published,
        hidden=campaign.hidden.words,
        live=(copy_of or campaign).is_locked(),
        evidence=runs,
        logs=packed_logs(records, runs, round(logs_mib * MIB)),
    )


def earlier_speeds(runs: Path, but: Path | None) -> Iterator[Speed]:
    """Yield the cells that ended ok of all campaigns in a folder of runs, except one folder."""
    for file in sorted(runs.glob(f"*/{names.CAMPAIGN}")):
        campaign = Campaign(file.parent)
        if (but is not None and file.parent.resolve() == but.resolve()) or not campaign.begun:
            continue
        for row in read_campaign(campaign, Path.cwd()).rows:
            reference = reference_of(row, campaign.name)
            if reference is not None:
                yield reference


def end_by_logs(attempt: Attempt) -> str | None:
    """Return the status that a run's logs and nodes give; None of one that nobody watched."""
    run = attempt.run
    return None if run is None or run.imported else judged(attempt, run.cell, "")[1].status


def log_growth(record: Record, attempt: Attempt) -> list[Seen]:
    """Return between which times each logged step was written, by the polls of one node's log."""
    logged = {step.iteration for step in record.measurement.intervals}
    places = record.measurement.places.items()
    nodes = (times_of_steps(steps, looks(attempt.node(rank))) for rank, steps in places)
    steps = ([step for step in seen if step.iteration in logged] for seen in nodes)
    return next((seen for seen in steps if len(seen) > 1), [])
