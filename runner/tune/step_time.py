"""The step time of a layout by an analytic model: ten components, each with one coefficient.

step = (device^4 + host^4)^(1/4) + the components after the slots, where `device` is the sum of the
components that a device works on in the slots of the schedule, and `host` the sum of those that the
host needs to launch kernels: it runs ahead, so the slower of the two decides (a soft maximum).

Formulas: slots and bubble of 1F1B and interleaved schedules, bytes between stages, and the
all-reduces of tensor parallelism are those of Narayanan et al. 2021 (arXiv:2104.04473, sections
2.2, 3.2, 2.3); bytes of activations per layer those of Korthikanti et al. 2022 (arXiv:2205.05198,
table 2); traffic of gradients and sharded states that of Rajbhandari et al. 2019 (ZeRO,
arXiv:1910.02054, section 7). That the sum of few components predicts step times of layouts well is
what vTrain shows (Bang et al. 2023, arXiv:2312.12391).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runner.terms.layout import Layout
from runner.tune.candidates import MachineRates

Floats = NDArray[np.float64]


class Coefficient(NamedTuple):
    """A component's coefficient: what it multiplies, and what is known before any run."""

    name: str
    unit: str
    typical: float  # the median of the prior, which is normal in its logarithm
    spread: float  # standard deviation of its logarithm


COEFFICIENTS = (
    Coefficient("matmul", "time / time at the machine's matrix rate", 1.3, 0.4),
    Coefficient("elementwise", "time / time at the machine's memory rate", 1.5, 0.5),
    Coefficient("tensor_bytes", "time / time at the link's rate", 1.5, 0.6),
    Coefficient("launch", "s per layer and pass", 0.5e-3, 0.8),
    Coefficient("tensor_launch", "s per collective", 0.1e-3, 0.8),
    Coefficient("gradient_bytes", "time / time at the link's rate", 1.5, 0.6),
    Coefficient("stage_bytes", "time / time at the link's rate", 1.5, 0.8),
    Coefficient("optimizer", "time / time at the machine's memory rate", 1.5, 0.7),
    Coefficient("micro_batch", "s per micro batch", 1e-3, 1.0),
    Coefficient("step", "s per step", 10e-3, 1.0),
)
DEVICE, HOST = slice(0, 3), slice(3, 5)  # the components of the slots, in COEFFICIENTS
PRIOR_MEAN: Floats = np.log([coefficient.typical for coefficient in COEFFICIENTS])
PRIOR_SPREAD: Floats = np.array([coefficient.spread for coefficient in COEFFICIENTS])
_SHARPNESS = 4.0  # of the soft maximum: equal sides are 19 % slower than one alone
_ROBUST = 2.0  # standard deviations: a row that is farther off counts less (Huber)


def components(layouts: Sequence[Layout], rates: MachineRates) -> Floats:
    """Return a row per layout, a column per coefficient; a coefficient of 1 makes it seconds."""
    return np.array([_of_one(layout, rates) for layout in layouts], np.float64)


def _of_one(layout: Layout, rates: MachineRates) -> list[float]:
    tokens = layout.micro_batch_size * layout.sequence_length / layout.context_parallel
    weights = layout.layer_weights or 12 * layout.hidden**2
    slots = layout.micro_batches + (layout.pipeline_parallel - 1) / layout.virtual_stages
    passes = {"none": 3.0, "selective": 3.1, "full": 4.0}[layout.recompute]  # backward is two
    layers = slots * layout.layers / layout.pipeline_parallel * passes
    flops = layers * tokens * (2 * weights + 4 * layout.sequence_length * layout.hidden)
    # The output layer is on the last stage only, and is not computed again.
    flops += layout.micro_batches * 3 * 2 * tokens * layout.hidden * layout.vocabulary
    return [
        flops / layout.tensor_parallel / (rates.matmul * layout.matmul_share),
        layers * _layer_traffic(layout, tokens) / rates.memory,
        layers * _tensor_traffic(layout, tokens, rates),
        layers,
        layers * 2 * (layout.tensor_parallel > 1),
        _gradient_time(layout, weights, rates),
        slots * _stage_time(layout, tokens, rates),
        _device_weights(layout, weights) * 32 / _shards(layout, 1) / rates.memory,
        layout.micro_batches,
        1.0,
    ]


def _layer_traffic(layout: Layout, tokens: float) -> float:
    """Bytes of activations that one pass through one layer moves on a device."""
    divided = 34.0 if layout.sequence_parallel else 24.0
    scores = (
        0.0 if layout.fused_attention else 5 * layout.heads * layout.sequence_length / layout.hidden
    )
    share = (34.0 - divided) + (divided + scores) / layout.tensor_parallel
    return tokens * layout.hidden * share * layout.value_bytes / 2


def _tensor_traffic(layout: Layout, tokens: float, rates: MachineRates) -> float:
    """Seconds of the two all-reduces that a pass through one layer needs, and of context parallel.

    A ring all-reduce of n bytes over r ranks moves 2 * n * (r - 1) / r bytes per device.
    """
    ranks, size = layout.tensor_parallel, tokens * layout.hidden * layout.value_bytes
    reduced = 2 * 2 * size * (ranks - 1) / ranks / _rate(layout, ranks, 1, rates)
    parts = layout.context_parallel
    passed = 2 * size / ranks * (parts - 1) / _rate(layout, parts, ranks, rates)
    return reduced + passed


def _gradient_time(layout: Layout, weights: int, rates: MachineRates) -> float:
    """Seconds to reduce the gradients (4 bytes each) over data parallel ranks, once per step.

    ZeRO 3 gathers the weights for both passes of each micro batch besides.
    """
    ranks = layout.data_parallel * layout.context_parallel
    moved = 2 * 4.0
    if layout.zero_stage >= 3:
        moved = 4.0 + 2 * layout.micro_batches * layout.value_bytes
    size = _device_weights(layout, weights) * moved * (ranks - 1) / ranks
    return size / _rate(layout, ranks, layout.tensor_parallel, rates)


def _stage_time(layout: Layout, tokens: float, rates: MachineRates) -> float:
    """Seconds to pass activations on and their gradients back, per slot."""
    if layout.pipeline_parallel == 1:
        return 0.0
    stride = layout.devices // layout.pipeline_parallel
    rate = rates.inside if stride < layout.devices_per_node else rates.between
    return 2 * tokens * layout.hidden * layout.value_bytes * layout.virtual_stages / rate


def _device_weights(layout: Layout, weights: int) -> float:
    """Weights of the fullest device: its layers, and the embedding of the first or last stage."""
    layers = layout.layers / layout.pipeline_parallel * weights
    return (layers + layout.vocabulary * layout.hidden) / layout.tensor_parallel


def _shards(layout: Layout, least: int) -> int:
    """Devices that share the optimizer's states, from ZeRO stage `least` on."""
    return layout.data_parallel * layout.context_parallel if layout.zero_stage >= least else 1


def _rate(layout: Layout, ranks: int, stride: int, rates: MachineRates) -> float:
    """Bytes/s per device of a ring over `ranks` devices that stand `stride` apart.

    Between nodes a ring has the adapters of all its devices in a node.
    """
    if ranks * stride <= layout.devices_per_node:
        return rates.inside
    here = min(max(layout.devices_per_node // stride, 1), ranks)
    return min(rates.inside, rates.between * here)


def log_times(parts: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Return the logarithm of each row's step time in s, and its derivatives by `logs`.

    `parts` are rows of `components`, `logs` the logarithms of the coefficients.
    """
    seconds = parts * np.exp(logs)
    device, host = seconds[:, DEVICE].sum(axis=1), seconds[:, HOST].sum(axis=1)
    slots = (device**_SHARPNESS + host**_SHARPNESS) ** (1 / _SHARPNESS)
    total = slots + seconds[:, HOST.stop :].sum(axis=1)
    shares = seconds.copy()
    shares[:, DEVICE] *= ((device / slots) ** (_SHARPNESS - 1))[:, None]
    shares[:, HOST] *= ((host / slots) ** (_SHARPNESS - 1))[:, None]
    return np.log(total), shares / total[:, None]


def fit(parts: Floats, measured: Floats, error: float = 0.1) -> Floats:
    """Return the logarithms of the coefficients: the mode after `measured`, robustly.

    `measured` are logarithms of step times in s, one per row of `parts`; `error` is the standard
    deviation that a row has around the model. Without rows the result is the prior's mean.
    """
    logs, precision = PRIOR_MEAN.copy(), np.diag(PRIOR_SPREAD**-2.0)
    for _ in range(30 if len(measured) else 0):
        predicted, slopes = log_times(parts, logs)
        missed = measured - predicted
        weight = np.minimum(1.0, _ROBUST * error / np.maximum(np.abs(missed), 1e-12)) / error**2
        gradient = slopes.T @ (weight * missed) - precision @ (logs - PRIOR_MEAN)
        change = np.linalg.solve(slopes.T @ (slopes * weight[:, None]) + precision, gradient)
        logs = logs + np.clip(change, -0.5, 0.5)
    return logs
