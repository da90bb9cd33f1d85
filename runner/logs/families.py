"""Which parsers read which log, best first, and which system a log is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runner.logs.batch import Batch
from runner.logs.deepspeed import DeepSpeedPipe, DeepSpeedStep, DeepSpeedTimer
from runner.logs.libai import LiBai, LiBaiMetrics
from runner.logs.megatron import Megatron
from runner.logs.names import SYSTEMS
from runner.logs.notes import Notes
from runner.logs.oneflow_gpt import OneFlowRecords, OneFlowSteps, OneFlowTable
from runner.logs.overflow import Overflows
from runner.logs.torch_gpt import TorchGpt


class Parser(Protocol):
    """Reads whole lines of one log, block by block; one object a log."""

    name: str
    notes: Notes
    overflows: Overflows

    def feed(self, text: bytes) -> Batch | None:
        """The steps in whole lines of a log; None where there is none."""


@dataclass(frozen=True)
class Kind:
    """One form of step lines. `says` names it for people."""

    make: Callable[[], Parser]
    says: str
    # DeepSpeed computes samples/s from ds_config's train_batch_size, which need not be true.
    own_rate: bool = True
    from_zero: bool = False


KINDS: Mapping[str, Kind] = {
    "megatron": Kind(Megatron, "Megatron's `iteration N/M |` lines"),
    "libai": Kind(
        LiBai,
        "LiBai's `iteration: N/M  consumed_samples:` lines, which count from 0",
        from_zero=True,
    ),
    "libai_metrics": Kind(
        LiBaiMetrics, "LiBai's metrics.json objects, which count from 0", from_zero=True
    ),
    "oneflow_steps": Kind(OneFlowSteps, "OneFlow's `step: N, loss:` lines"),
    "oneflow_table": Kind(OneFlowTable, "OneFlow's `| step | micro_batches |` table"),
    "oneflow_records": Kind(OneFlowRecords, "OneFlow's `step=N,micro_batches=` records"),
    "torch_gpt": Kind(TorchGpt, "torch_gpt's `torch_gpt step=` lines"),
    "deepspeed_pipe": Kind(
        DeepSpeedPipe, "DeepSpeed's `steps: N loss:` lines and no Megatron line", own_rate=False
    ),
    "deepspeed_timer": Kind(
        DeepSpeedTimer, "DeepSpeed's SamplesPerSec lines and no Megatron line", own_rate=False
    ),
    "deepspeed_step": Kind(
        DeepSpeedStep,
        "DeepSpeed's `step=N, skipped=` lines alone, which hold no time",
        own_rate=False,
    ),
}


def kinds_of(system: str | None) -> tuple[str, ...]:
    """The kinds to try for a system, or all of them."""
    return tuple(KINDS) if system is None else SYSTEMS[system]
