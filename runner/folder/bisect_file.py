"""bisect.json: how far the bisection of a campaign is."""

from pathlib import Path

from runner.base.dataclass_schema import shape
from runner.folder import names
from runner.folder.stored import OfThisVersion, load, write_json
from runner.terms.bisected import Bisected

BISECTED = OfThisVersion(shape(Bisected))


def load_bisected(campaign: Path) -> Bisected | None:
    """Return what a campaign's bisect.json holds; None without one. Raises UnreadableError."""
    bisected: Bisected | None = load(campaign / names.BISECTED, BISECTED, names.BISECTED)
    return bisected


def save_bisected(campaign: Path, bisected: Bisected) -> None:
    """Write it."""
    write_json(campaign / names.BISECTED, bisected.to_json())
