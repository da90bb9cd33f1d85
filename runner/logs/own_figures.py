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

from runner.logs.batch import Figures
from runner.logs.decoding import line_end
from runner.logs.numbers import quantity

_TFLOPS = re.compile(
    rb"\| (?:(?:throughput|compute) per GPU \(TFLOP/s/GPU\)|TFLOPs): ([\d.]+)"
    rb"(?:/[\d.]+| \(avg [\d.]+\))? {1,2}\|"
)
_ENERGY = re.compile(rb"\| energy per GPU \(J/iter/GPU\): ([\d.]+) \|")
_STEP_MARK = b"s GPU utilization: "
_STEP = re.compile(
    rb"Step Time : ([\d.]{1,20})s GPU utilization: ([\d.]{1,20}) ?(?:MODEL_)?TFLOP/s/GPU"
)
BEFORE = 40  # bytes before the mark in which its line begins
ROUNDED_S = 0.00501  # its time has two places


def last_step_time(text: bytes, begin: int, end: int) -> bytes:
    """Return the last `Step Time` of a part of a block, or nothing."""
    at = text.rfind(_STEP_MARK, begin, end)
    match = _STEP.search(text, max(begin, at - BEFORE), end) if at >= 0 else None
    return match[0] if match else b""


def own_figures(line: bytes, step_time: bytes, time_ms: float) -> Figures:
    """Read what the trainer worked out: on a step's line, else on the `Step Time` before it."""
    line = line[: line_end(line, 0)]
    tflops, energy = (pattern.search(line) for pattern in (_TFLOPS, _ENERGY))
    rate = quantity(tflops[1]) if tflops else None
    if rate is None and (step := _STEP.fullmatch(step_time)):
        seconds = quantity(step[1])
        its_own = seconds is not None and abs(seconds - time_ms / 1000) <= ROUNDED_S
        rate = quantity(step[2]) if its_own else None
    return Figures(rate, quantity(energy[1]) if energy else None)
