"""A campaign's folder to its document: the one way in for tables, pages and comparisons."""

from pathlib import Path

from runner.folder.campaign import Campaign
from runner.results.evidence import evidence_of_records, packed_logs
from runner.results.records import layout_of, records_of
from runner.tables.build import measured
from runner.tables.campaign_document import CampaignDocument

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
