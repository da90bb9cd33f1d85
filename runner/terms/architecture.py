"""What a model is to figures and checks: the work of a sample, and what it can be split into."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Formula:
    """A FLOP formula as the tables name it."""

    id: str
    expression: str
    meaning: str
    source: str


@dataclass(frozen=True)
class Divided:
    """A count of a model that a parallel size must divide: its heads by tensor_parallel, say."""

    size: str
    what: str
    count: int


class Architecture(Protocol):
    """A model, as a frozen dataclass: its fields are its shape, which tables can show.

    Two runs with unequal ones train different models.
    """

    @property
    def formula(self) -> Formula:
        """How `flops` counts, where nothing is computed again."""

    @property
    def seq_length(self) -> int:
        """Tokens of a sample."""

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, as far as it is known before a log tells the padded size."""

    def flops(self, *, recompute: bool = False, vocab_size: int | None = None) -> float:
        """Count the FLOPs of one sample; `recompute`: with a second forward pass."""

    def divided(self) -> Iterable[Divided]:
        """Name what parallel sizes must divide."""
