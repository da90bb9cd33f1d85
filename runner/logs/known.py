"""What turns tokens into samples: sizes that are known of a run, or that its log says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from runner.logs.batch import Batch, Floats
from runner.logs.numbers import whole

# Facts (runner/logs/notes.py) that a kind of lines may note of a run, each a whole number.
TOKENS_PER_SAMPLE = "tokens_per_sample"
DEVICES = "devices"  # of the whole job
TRAIN_ITERS = "train_iters"  # iterations that the run is to have
EXIT_INTERVAL = "exit_interval"  # it ends at a multiple of so many iterations, if that comes first
# And two words: what computed attention, and what torch.compile found in its caches (cold, warm,
# partly; none: it made nothing).
ATTENTION = "attention"
COMPILE_CACHE = "compile_cache"


@dataclass(frozen=True)
class Known:
    """Sizes of a run: tokens of a sample, devices of the whole job. None: not known."""

    tokens_per_sample: int | None = None
    devices: int | None = None

    def or_by(self, facts: Mapping[str, str]) -> Known:
        """Take from a log's own words what is not known otherwise."""
        return Known(
            self.tokens_per_sample or whole(facts.get(TOKENS_PER_SAMPLE)) or None,
            self.devices or whole(facts.get(DEVICES)) or None,
        )

    def complete(self, batch: Batch) -> Batch:
        """Fill in what the lines say in other words: the job's tokens/s from a device's, and
        samples/s from those.
        """
        rate, tokens = batch.samples_per_s, batch.tokens_per_s
        if tokens is None and batch.device_tokens_per_s is None:
            return batch
        if batch.device_tokens_per_s is not None and self.devices:
            tokens = _or(tokens, batch.device_tokens_per_s * self.devices)
        if tokens is not None and self.tokens_per_sample:
            rate = _or(rate, tokens / self.tokens_per_sample)
        return replace(batch, samples_per_s=rate, tokens_per_s=tokens)


UNKNOWN = Known()


def _or(column: Floats | None, other: Floats) -> Floats:
    """Return the column, with the other's values where it has none."""
    return other if column is None else np.where(np.isnan(column), other, column)
