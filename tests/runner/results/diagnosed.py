"""Why a run ended by its logs, each with the steps that are read of it."""

from collections.abc import Sequence
from pathlib import Path

from runner.results.diagnosis.verdict import Verdict, diagnose
from runner.results.parsed import read


def diagnosed(paths: Sequence[Path]) -> Verdict:
    """Read logs as the nodes of one run, and say why it ended."""
    places = read(paths).measurement.places
    return diagnose({path: places.get(rank, ()) for rank, path in enumerate(paths)})
