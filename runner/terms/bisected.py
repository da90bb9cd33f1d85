"""How far a bisection is, as data: bisect.json of a campaign is this."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from node.schema import Whole, Words
from runner.terms.cell import MOST_REPEATS

MOST_VERSIONS = 100_000
Number = Annotated[int, Whole(0, MOST_VERSIONS)]
Repeat = Annotated[int, Whole(1, MOST_REPEATS)]
Text = Annotated[str, Words()]


@dataclass(frozen=True)
class BisectVersion:
    """A commit or NAME==VERSION; `skipped` is why it cannot be built or run."""

    kind: Literal["commit", "package", "pin"]
    value: Text
    label: Text
    subject: Text = ""
    skipped: Text = ""


@dataclass(frozen=True)
class BisectPair:
    """Two runs that took turns: versions by their place, and the repeats of their cells."""

    a: Number
    repeat_a: Repeat
    b: Number
    repeat_b: Repeat


@dataclass(frozen=True)
class BisectAnswer:
    """What is known: the versions, one of which changed the figure, and how probable that is.

    `ended`: found, no_change, or why it is not over. Percent are of the earlier version's figure.
    """

    ended: Text = ""
    earliest: int | None = None  # place of the first version that may have changed it
    final: int | None = None
    probability: float = 0.0
    no_change: float = 0.0  # probability
    change_percent: float | None = None  # from the version before `earliest` to `final`
    interval_percent: tuple[float, ...] = ()  # 95 %: its ends
    ends_percent: float | None = None  # from the first version of all to the last
    ends_interval_percent: tuple[float, ...] = ()
    also_differs: tuple[Text, ...] = ()
    runs: int = 0
    versions_run: int = 0


@dataclass(frozen=True)
class Bisected:
    """A bisection of one cell's figure over versions in their order."""

    cell: Text
    figure: Text
    smallest_percent: float
    confidence: float
    versions: tuple[BisectVersion, ...]
    pairs: tuple[BisectPair, ...] = ()
    answer: BisectAnswer = BisectAnswer()
    schema: Annotated[int, Whole(1, 1)] = 1

    def to_json(self) -> dict[str, Any]:
        """Return what bisect.json holds."""
        return asdict(self)
