"""What Megatrons and those who wrap them work out themselves.

* `throughput per GPU (TFLOP/s/GPU): 210.5 |` and `energy per GPU (J/iter/GPU): 640.1 |`, with
  `--log-throughput` and `--log-energy` (core_v0.13.0 megatron/training/training.py:1709, :1718).
* Primus (v26.2 1ec29c67 primus/modules/trainer/megatron/trainer.py:2036-2090; fd1eeabb
  primus/backends/megatron/patches/training_log/print_rank_last_patches.py:430-543) has
  `compute per GPU (TFLOP/s/GPU): 210.5 (avg 217.3)`, before 2026-07 `throughput .. 210.5/217.3`.
* Megatron-Bridge (067f987d src/megatron/bridge/training/utils/train_utils.py:1049) has a line of
  rank 0's before the last rank's, `Step Time : 14.26s GPU utilization: 58.2MODEL_TFLOP/s/GPU`,
  which is of the iteration whose time it has.
"""

import re
from collections.abc import Mapping

from runner.logs.logged_step import LoggedStep
from runner.logs.numbers import quantity

STEP_MARK = b"s GPU utilization: "
_STEP = re.compile(
    rb"Step Time : ([\d.]{1,20})s GPU utilization: ([\d.]{1,20}) ?(?:MODEL_)?TFLOP/s/GPU"
)
BEFORE = 40  # bytes before the mark in which its line begins
ROUNDED_S = 0.00501  # its time has two places


def step_time(text: bytes, at: int) -> bytes:
    """Return the `Step Time` around a mark, or nothing."""
    match = _STEP.search(text, max(0, at - BEFORE))
    return match[0] if match and match.start() < at < match.end() else b""


def read_own_figures(step: LoggedStep, fields: Mapping[str, bytes], step_time: bytes) -> None:
    """Read what the trainer worked out: on a step's line, else on the `Step Time` before it."""
    if tflops := fields.get("tflops"):
        step.tflop_per_s = quantity(tflops.partition(b"/")[0])
    if energy := fields.get("energy"):
        step.energy_j = quantity(energy)
    if step_time and step.tflop_per_s is None and (match := _STEP.match(step_time)):
        seconds, time_ms = quantity(match[1]), step.step_time_ms
        if seconds and time_ms and abs(seconds - time_ms / 1000) <= ROUNDED_S:
            step.tflop_per_s = quantity(match[2])
