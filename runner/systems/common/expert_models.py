"""Sizes of Qwen 3, GPT-OSS and Mixtral by name, under Megatron-LM's names of them. Pure.

Read from config.json of Qwen/Qwen3-0.6B, -1.7B, -8B, -32B, -30B-A3B, openai/gpt-oss-20b and
mistralai/Mixtral-8x7B-v0.1. A name that ends with `-layers` is the beginning of one, with all of
its widths, for devices that do not hold the whole.
"""

from collections.abc import Mapping
from typing import Any

from runner.systems.common.models import MODELS as DENSE
from runner.systems.common.models import ROPE

_COMMON: Mapping[str, Any] = {
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": ROPE,
    "disable_bias_linear": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "untie_embeddings_and_output_weights": True,
    "seq_length": 4096,
    "num_query_groups": 8,
}


def _sizes(layers: int, hidden: int, heads: int, ffn: int, **changes: Any) -> dict[str, Any]:
    return {
        **_COMMON,
        **{"num_layers": layers, "hidden_size": hidden, "num_attention_heads": heads},
        **{"ffn_hidden_size": ffn, **changes},
    }


def _qwen3(layers: int, hidden: int, heads: int, ffn: int, **changes: Any) -> dict[str, Any]:
    family = {
        "kv_channels": 128,
        "qk_layernorm": True,
        "rotary_base": 1000000,
        "vocab_size": 151936,
    }
    return _sizes(layers, hidden, heads, ffn, **{**family, "norm_epsilon": 1e-6, **changes})


def _experts(count: int, topk: int, ffn: int) -> dict[str, Any]:
    return {"num_experts": count, "moe_router_topk": topk, "moe_ffn_hidden_size": ffn}


def _qwen3_moe(layers: int) -> dict[str, Any]:
    return _qwen3(layers, 2048, 32, 6144, num_query_groups=4, **_experts(128, 8, 768))


def _gpt_oss(layers: int, **changes: Any) -> dict[str, Any]:
    family: dict[str, Any] = {"kv_channels": 64, "rotary_base": 150000, "vocab_size": 201088}
    family |= {"disable_bias_linear": False, "softmax_type": "learnable", "window_size": 128}
    return _sizes(layers, 2880, 64, 2880, **{**family, **_experts(32, 4, 2880), **changes})


def _mixtral(layers: int) -> dict[str, Any]:
    family = {"rotary_base": 1000000, "vocab_size": 32000}
    return _sizes(layers, 4096, 32, 14336, **family, **_experts(8, 2, 14336))


WITH_EXPERTS: Mapping[str, Mapping[str, Any]] = {
    "moe-debug": {
        **_qwen3(4, 128, 4, 256, num_query_groups=2, **_experts(8, 2, 128)),
        **{"kv_channels": 64, "seq_length": 128, "vocab_size": None},
    },
    "gpt-oss-debug": {
        **_gpt_oss(4, **_experts(8, 2, 128)),
        **{"hidden_size": 128, "num_attention_heads": 4, "num_query_groups": 2, "seq_length": 128},
        **{"ffn_hidden_size": 128, "window_size": 16, "vocab_size": None},
    },
    "qwen3-30b-a3b": _qwen3_moe(48),
    "qwen3-30b-a3b-4-layers": _qwen3_moe(4),
    "gpt-oss-20b": _gpt_oss(24),
    "gpt-oss-20b-4-layers": _gpt_oss(4),
    "mixtral-8x7b": _mixtral(32),
    "mixtral-8x7b-2-layers": _mixtral(2),
}
MODELS: Mapping[str, Mapping[str, Any]] = {
    **DENSE,
    "qwen3-0.6b": _qwen3(28, 1024, 16, 3072),
    "qwen3-1.7b": _qwen3(28, 2048, 16, 6144),
    "qwen3-8b": _qwen3(36, 4096, 32, 12288),
    "qwen3-32b": _qwen3(64, 5120, 64, 25600),
    **WITH_EXPERTS,
}
