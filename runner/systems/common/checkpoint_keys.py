"""The keys of checkpoints, alike for all systems that have them."""

from collections.abc import Callable, Mapping
from typing import Any

from runner.figures.flops import Decoder
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
# Bytes of a weight in a checkpoint: itself in single precision, and AdamW's two moments. Megatron
# has the half-precision weight besides its single-precision copy.
SINGLE, WITH_MASTERS = 4 + 8, 2 + 4 + 8
Size = Callable[[Mapping[str, Any]], float]


def resumes(parameters: Mapping[str, Any]) -> bool:
    """Whether a cell saves checkpoints that it goes on from."""
    return bool(parameters.get(INTERVAL.name))


def size_of(
    model: Callable[[Mapping[str, Any]], Decoder], *, half_beside_masters: bool = False
) -> Size:
    """Return what estimates the bytes of one checkpoint by a cell's parameters: weights and
    optimizer states, not what the trainer adds of its own.
    """

    def size(parameters: Mapping[str, Any]) -> float:
        half = half_beside_masters and parameters.get("precision") != "fp32"
        weights, _ = model(parameters).parameters
        return weights * (WITH_MASTERS if half else SINGLE)

    return size
