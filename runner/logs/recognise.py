"""Which system a log is of, and why. Several share a format; then the reason says so."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Words that tell, searched in small letters in the beginning and the end of every log.
_WORDS: Mapping[str, tuple[bytes, ...]] = {
    "npu": (
        b"torch_npu",
        b"/ascend/",
        b"processgrouphccl",
        b"hccl_",
        b"npu-smi",
        b"[npu",
        b"npu warning",
        b"npu:0",
    ),
    "deepspeed": (b"deepspeed", b"deepscale", b"consumed tokens:", b"per iteration (s):"),
    "zeros": (b"| num zeros: ",),
    "consumed": (b"| consumed samples: ",),
    "core": (b"throughput per gpu (tflop/s/gpu)",),
    "libai": (
        b" libai info",
        b" libai]",
        b"libai.",
        b"/libai/",
        b"lb.utils.",
        b"lb.engine.",
        b"lb.data.",
        b"lb.scheduler",
        b"lb.models",
    ),
    "oneflow": (b"oneflow",),
    "megatron": (b"pretrain_gpt", b"megatron"),
    "torch_gpt": (b"torch_gpt",),
}
_STAMPED = re.compile(rb"\d\] iteration +\d+/ *\d+ \|")  # Megatron core puts the time before it
_ALIKE = "(NVIDIA's, bigscience's and microsoft's lines look alike: name another with --system)"


def words(sample: bytes) -> set[str]:
    """Which of the telling words a part of a log has."""
    small = sample.lower()
    found = {name for name, signs in _WORDS.items() if any(sign in small for sign in signs)}
    return found | {"core"} if _STAMPED.search(small) else found


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
