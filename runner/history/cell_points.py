"""What is known of a cell in one campaign, and of the campaign: plain data, small. Pure.

A *point* is one cell of one campaign: its row as `collect --format json` has it, what it ran on,
and what tells it from other cells.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.compare.side import ended_well

IMPORTED = "imported"
REDACTED = "redacted"
NOT_PUBLISHABLE = "not publishable"
# Marks of what is not official, to what a reader should know.
UNOFFICIAL: Mapping[str, str] = {
    IMPORTED: "a log from elsewhere: nobody here knows its command and machine",
    REDACTED: "an export without names: its nodes cannot be told from others",
    NOT_PUBLISHABLE: "its verdict lists caveats",
}


@dataclass(frozen=True)
class Point:
    """One cell of one campaign.

    `key` is that of its series (identity.py). `facts` are what it ran on and its pin, as text;
    `unofficial` has words of UNOFFICIAL. `began` is when its first run did (epoch seconds), as far
    as anybody knows.
    """

    campaign: str
    key: str
    machine: str
    row: Mapping[str, Any]
    facts: Mapping[str, str]
    unofficial: tuple[str, ...] = ()
    began: float | None = None

    @property
    def cell(self) -> str:
        """The cell's name."""
        return str(self.row["cell"])

    @property
    def finished(self) -> bool:
        """Whether its figures are those of runs that ended ok."""
        return bool(self.row["numbers_from"] == "ok runs")

    @property
    def ended_well(self) -> bool:
        """Whether every repeat that ended did so well, as `compare` counts."""
        return ended_well(self.row)

    def figure(self, quantity: str) -> float | None:
        """Return a figure of the row, or None."""
        value = self.row.get(quantity)
        return None if value is None else float(value)

    def interval(self, quantity: str) -> tuple[float, float] | None:
        """Return the 95 % interval of a figure's median, or None."""
        low, high = (self.figure(f"{quantity}_ci_{end}") for end in ("low", "high"))
        return None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class CampaignPoints:
    """One campaign: its points, and what holds for all of them.

    `id` is its name among all that are read, of letters that any file system and address can have.
    `path` is its folder or file, `source` the name of that; `digest` says which others are the
    same.
    """

    id: str
    name: str
    path: Path
    source: str
    digest: str
    began: float | None
    wall_s: float
    machines: tuple[str, ...]
    points: tuple[Point, ...]
    live: bool = False
    imported: bool = False
    redacted: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """What is not official of all its points."""
        marks = {IMPORTED: self.imported, REDACTED: self.redacted}
        return tuple(mark for mark, holds in marks.items() if holds)


@dataclass(frozen=True)
class LeftOut:
    """A folder or file that is not among the campaigns, and why."""

    source: str
    reason: str


def order(campaign: CampaignPoints) -> tuple[float, str, str]:
    """Sort by when they began; one that nobody knows when comes last."""
    began = float("inf") if campaign.began is None else campaign.began
    return began, campaign.name, campaign.digest
