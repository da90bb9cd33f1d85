"""What the `tune` block of a matrix asks for: knobs, and what the fastest setting is. Data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Objective(NamedTuple):
    """What a search looks for, and the figure of a run that it compares: less is better."""

    meaning: str
    unit: str  # of the figure
    of_time: bool = True  # the figure is a time, which the model of step times predicts


OBJECTIVES: Mapping[str, Objective] = {
    "step_time": Objective("least time per step", "s per step"),
    "tokens_per_s": Objective(
        "most tokens/s per device; the global batch may be a knob", "s per token of a device"
    ),
    "energy": Objective("least joules per token", "J per token", of_time=False),
    "memory": Objective(
        "least memory per device, at no more than memory_loss_percent of speed", "s per step"
    ),
}
MEMORY_LOSS_PERCENT = 5.0


@dataclass(frozen=True)
class OfSystem:
    """What a search sets of one system alone."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    knobs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """A search: which keys are knobs, and what is best.

    The first value of each knob is the default, with which the winner is compared. `systems` has
    the settings and knobs of one system alone, which go before those of all. `short_iters` None:
    chosen by train_iters and log_interval. `headroom_percent` of a device's memory stay free.
    """

    knobs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    objective: str = "step_time"
    memory_loss_percent: float = MEMORY_LOSS_PERCENT
    short_iters: int | None = None
    headroom_percent: float = 5.0
    systems: Mapping[str, OfSystem] = field(default_factory=dict)

    def knobs_of(self, system: str) -> Mapping[str, tuple[Any, ...]]:
        """Return the knobs of a system, with their values; it may lack some of them."""
        return {**self.knobs, **self.systems.get(system, OfSystem()).knobs}
