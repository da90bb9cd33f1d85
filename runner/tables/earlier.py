"""What a person's own campaigns reached, as references for another one. Reads folders of runs."""

from collections.abc import Iterator
from pathlib import Path

from runner.expect.references import Speed
from runner.folder import names
from runner.folder.campaign import Campaign
from runner.tables.campaign_reading import read_campaign
from runner.tables.expected import reference_of


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
