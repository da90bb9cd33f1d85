"""How evenly a mixture's tokens went to its experts, as the last logged line of each run has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from runner.logs.numbers import number
from runner.logs.run_sizes import DROP_RATE, EXPERT_IMBALANCE, TOKENS_PER_EXPERT
from runner.terms.record import Record

NOT_SAID = "the log does not say how the experts were loaded"


@dataclass(frozen=True)
class ExpertFigures:
    """Of a cell, medians over the runs that count; None: no run says it.

    `tokens_per_expert` is the mean of an expert, layer and iteration; `imbalance` the tokens of the
    busiest expert over that mean (1: balance), `drop_percent` the share of choices that found an
    expert full.
    """

    tokens_per_expert: float | None = None
    imbalance: float | None = None
    drop_percent: float | None = None


def experts(runs: Sequence[Record]) -> ExpertFigures:
    """Return what the runs of a cell say of their experts."""
    dropped = _median(runs, DROP_RATE)
    return ExpertFigures(
        _median(runs, TOKENS_PER_EXPERT),
        _median(runs, EXPERT_IMBALANCE),
        None if dropped is None else 100 * dropped,
    )


def _median(runs: Sequence[Record], fact: str) -> float | None:
    texts = [run.measurement.facts.get(fact) for run in runs]
    values = [value for text in texts if text and (value := number(text.encode())) is not None]
    return median(values) if values else None
