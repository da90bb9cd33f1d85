"""The winner of a search as a matrix of its own. Pure."""

from collections.abc import Mapping
from typing import Any

import yaml

from runner.matrix.dialect import read_yaml
from runner.terms.cell import Matrix
from runner.tune.knob_candidates import RaceCandidate

REPEATS = 3


def winner_matrix(matrix: Matrix, winner: RaceCandidate) -> str:
    """Write the matrix of the winner alone, which bench runs."""
    content: dict[str, Any] = dict(read_yaml(matrix.text, matrix.name))
    for key in ("tune", "exclude", "baseline", "table", "published"):
        content.pop(key, None)
    content["name"] = f"{matrix.name}-winner"[:64]
    alone = matrix.tune.systems.get(winner.long.system) if matrix.tune else None
    settings = dict(alone.settings) if alone else {}
    content["defaults"] = {
        **(content.get("defaults") or {}),
        **settings,
        **_written(winner.knobs),
    }
    content["repeats"] = REPEATS
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=False, width=100)
    return f"# The fastest setting that `trainbench tune` found.\n{text}"


def _written(knobs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in knobs.items() if value is not None}
