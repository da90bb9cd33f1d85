"""What turns tokens into samples: sizes that are known of a run, or that its log says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import whole_number

# Facts (runner/logs/log_metadata.py) that a kind of lines may note of a run, each a whole number.
TOKENS_PER_SAMPLE = "tokens_per_sample"
DEVICES = "devices"  # of the whole job
TRAIN_ITERS = "train_iters"  # iterations that the run is to have
EXIT_INTERVAL = "exit_interval"  # it ends at a multiple of so many iterations, if that comes first
# And two words: what computed attention, and what torch.compile found in its caches (cold, warm,
# partly; none: it made nothing).
ATTENTION = "attention"
COMPILE_CACHE = "compile_cache"
# And numbers: tokens of an expert (mean), the busiest expert's over it, share of dropped choices.
TOKENS_PER_EXPERT = "tokens_per_expert"
EXPERT_IMBALANCE = "expert_imbalance"
DROP_RATE = "drop_rate"


@dataclass(frozen=True)
class Known:
    """Sizes of a run: tokens of a sample, devices of the whole job, samples of an iteration as the
    user says, whatever the log does. None: not known.
    """

    tokens_per_sample: int | None = None
    devices: int | None = None
    global_batch_size: int | None = None

    def or_by(self, facts: Mapping[str, str]) -> Known:
        """Take from a log's own words what is not known otherwise."""
        return Known(
            self.tokens_per_sample or whole_number(facts.get(TOKENS_PER_SAMPLE)) or None,
            self.devices or whole_number(facts.get(DEVICES)) or None,
            self.global_batch_size,
        )

    def complete(self, step: LoggedStep) -> None:
        """Fill in what the line says in other words: the job's tokens/s from a device's, and
        samples/s from those.
        """
        if step.tokens_per_s is None and step.device_tokens_per_s is not None and self.devices:
            step.tokens_per_s = step.device_tokens_per_s * self.devices
        if step.samples_per_s is None and step.tokens_per_s is not None and self.tokens_per_sample:
            step.samples_per_s = step.tokens_per_s / self.tokens_per_sample


UNKNOWN = Known()
