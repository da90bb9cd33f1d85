"""tune.json: what the search of a campaign found so far."""

from pathlib import Path

from runner.base.dataclass_schema import shape
from runner.folder import names
from runner.folder.stored import OfThisVersion, load, write_json
from runner.terms.tuned import Tuned

TUNED = OfThisVersion(shape(Tuned))


def load_tuned(campaign: Path) -> Tuned | None:
    """Return what a campaign's tune.json holds; None without one. Raises UnreadableError."""
    tuned: Tuned | None = load(campaign / names.TUNED, TUNED, names.TUNED)
    return tuned


def save_tuned(campaign: Path, tuned: Tuned) -> None:
    """Write it."""
    write_json(campaign / names.TUNED, tuned.to_json())
