"""Which system a log is of, and why. Several share a format; then the reason says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Words that tell, searched in the beginning and the end of every log, in any case of letters.
_WORDS: Mapping[str, re.Pattern[bytes]] = {
    "npu": re.compile(
        rb"torch_npu|/ascend/|\bhccl|npu-smi|\bnpu:\d|\[npu|\bNPU warning", re.IGNORECASE
    ),
    "deepspeed": re.compile(
        rb"deepspeed|deepscale|consumed tokens:|per iteration \(s\):", re.IGNORECASE
    ),
    "zeros": re.compile(rb"\| num zeros: "),
    "consumed": re.compile(rb"iteration +\d+/ *\d+ \|[^\n|]*consumed samples:"),
    "core": re.compile(rb"throughput per GPU \(TFLOP/s/GPU\)|\d\] iteration +\d+/"),
    "libai": re.compile(rb"\blb\.(?:utils|engine|data|scheduler|models)\b|\blibai\b"),
    "oneflow": re.compile(rb"\boneflow\b", re.IGNORECASE),
    "megatron": re.compile(rb"pretrain_gpt|\bmegatron", re.IGNORECASE),
    "torch_gpt": re.compile(rb"\btorch_gpt\b"),
}
_ALIKE = "(NVIDIA's, bigscience's and microsoft's lines look alike: name another with --system)"


def words(sample: bytes) -> set[str]:
    """Which of the telling words a part of a log has."""
    return {name for name, pattern in _WORDS.items() if pattern.search(sample)}


def system_of(kind: str | None, found: set[str]) -> tuple[str | None, str]:
    """The system of a log with that kind of step lines and those words, and why."""
    if kind == "megatron":
        return _megatron(found)
    if kind is None:
        return _by_words(found)
    if kind.startswith("libai"):
        return "libai", ""
    if kind.startswith("oneflow"):
        return "oneflow_gpt", ""
    if kind == "torch_gpt":
        return "torch_gpt", ""
    if "npu" in found:
        return "ascend_gpt", "and names NPUs"
    return (
        "megatron_deepspeed",
        "(any DeepSpeed trainer prints them: name another with --system)",
    )


def _megatron(found: set[str]) -> tuple[str, str]:
    if "npu" in found:
        return "ascend_gpt", "and names NPUs (on GPUs the same lines are megatron_deepspeed's)"
    if "core" in found:
        return "megatron_core", "with the marks of Megatron core"
    if "consumed" not in found:
        return "megatron_lm", "without `consumed samples`, as v1.1.5 prints them"
    if "deepspeed" in found:
        return "megatron_deepspeed", "with DeepSpeed's marks (ascend_gpt prints the same on NPUs)"
    if "zeros" in found:
        return "megatron_deepspeed", f"with `num zeros`, as bigscience prints them {_ALIKE}"
    return "megatron_lm", f"with no mark of DeepSpeed {_ALIKE}"


def _by_words(found: set[str]) -> tuple[str | None, str]:
    for word, system in (
        ("torch_gpt", "torch_gpt"),
        ("libai", "libai"),
        ("oneflow", "oneflow_gpt"),
        ("deepspeed", "ascend_gpt" if "npu" in found else "megatron_deepspeed"),
        ("npu", "ascend_gpt"),
        ("megatron", "megatron_lm"),
    ):
        if word in found:
            return system, f"the log names {word}"
    return None, "nothing in the log names a system"
