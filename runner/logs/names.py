"""Which kinds of lines each system prints, best first. Names only: nothing is imported here.

`families` has the parsers behind the names; the command line needs the names alone, and numpy,
which the parsers import, costs as much as the rest of its start.
"""

from __future__ import annotations

from collections.abc import Mapping

_DEEPSPEED = ("deepspeed_pipe", "deepspeed_timer", "deepspeed_step")
SYSTEMS: Mapping[str, tuple[str, ...]] = {
    "megatron_deepspeed": ("megatron", *_DEEPSPEED),
    "megatron_lm": ("megatron", *_DEEPSPEED),
    "megatron_core": ("megatron",),
    "ascend_gpt": ("megatron", *_DEEPSPEED),
    "libai": ("libai", "libai_metrics"),
    "oneflow_gpt": ("oneflow_steps", "oneflow_table", "oneflow_records"),
    "torch_gpt": ("torch_gpt",),
}
