"""Everything that a site's pages are made from, once all campaigns are read. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from runner.base.errors import UserError
from runner.compare.side import Side
from runner.compare.verdicts import CampaignComparison, compare_campaigns
from runner.history.cell_points import CampaignPoints, LeftOut
from runner.history.regressions import Regression, regressions
from runner.history.series import Series, all_series
from runner.tables.catalogue.every_column import THRESHOLDS


@dataclass(frozen=True)
class WholeSite:
    """The campaigns as they followed each other, and what was left out."""

    campaigns: Sequence[CampaignPoints]
    left_out: Sequence[LeftOut]

    @cached_property
    def series(self) -> Sequence[Series]:
        """Each cell of each kind of machine."""
        return all_series(self.campaigns)

    @cached_property
    def over_time(self) -> Sequence[Series]:
        """Those that several campaigns have."""
        return [series for series in self.series if len(set(series.campaigns)) > 1]

    @cached_property
    def by_key(self) -> Mapping[str, Series]:
        """The same by their keys."""
        return {series.key: series for series in self.over_time}

    @cached_property
    def by_id(self) -> Mapping[str, CampaignPoints]:
        """The campaigns by their ids."""
        return {campaign.id: campaign for campaign in self.campaigns}

    @cached_property
    def regressions(self) -> Sequence[Regression]:
        """What got worse, newest first."""
        return regressions(self.series, self.campaigns)

    @cached_property
    def comparisons(self) -> Mapping[tuple[str, str], CampaignComparison]:
        """Each campaign against the newest before it that has a cell in common with it."""
        compared = {}
        for at, now in enumerate(self.campaigns):
            keys = {point.key for point in now.points}
            for before in reversed(self.campaigns[:at]):
                if keys & {point.key for point in before.points}:
                    comparison = _compared(before, now)
                    if comparison is not None:
                        compared[before.id, now.id] = comparison
                    break
        return compared


def _compared(a: CampaignPoints, b: CampaignPoints) -> CampaignComparison | None:
    """Compare two campaigns, of which the second may have fewer cells.

    None where nothing of either ended well.
    """
    sides = [
        Side(
            campaign.name,
            [_row(point.row) for point in campaign.points],
            campaign.environment,
            campaign.live,
            campaign.hidden,
        )
        for campaign in (a, b)
    ]
    try:
        return compare_campaigns(sides[0], sides[1], THRESHOLDS, allow_missing=True)
    except UserError:
        return None


def _row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row
