"""The keys of checkpoints, alike for all systems that have them."""

from collections.abc import Mapping
from typing import Any

from runner.terms.cell import Parameter

INTERVAL = Parameter(
    "checkpoint_interval",
    int,
    None,
    "iterations between two checkpoints; default: none is saved",
    minimum=1,
)
ASYNC = Parameter("checkpoint_async", bool, None, "checkpoints are written while training goes on")
KEEP = Parameter("checkpoint_keep", int, None, "newest checkpoints that stay; default 2", minimum=1)
KEPT = 2  # by default


def resumes(parameters: Mapping[str, Any]) -> bool:
    """Whether a cell saves checkpoints that it goes on from."""
    return bool(parameters.get(INTERVAL.name))
