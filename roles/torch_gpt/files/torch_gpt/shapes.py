"""The models by name. Standard library only, as arguments.py is."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """A GPT-2, or a Llama where ``llama`` is true; ``seq_length`` is the default, in tokens.

    ``num_query_groups`` are the heads of keys and values, ``ffn_hidden_size`` is the width of the
    perceptron; a ``vocab_size`` of None is the dataset's.
    """

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    seq_length: int
    num_query_groups: int
    ffn_hidden_size: int
    vocab_size: int | None = None
    llama: bool = False
    # Of a Llama's relatives. `kv_channels` is the size of a head, by default hidden size / heads.
    kv_channels: int | None = None
    rotary_base: float = 500_000.0
    norm_epsilon: float = 1e-5
    qk_norm: bool = False  # RMSNorm of each head of queries and keys
    attention_bias: bool = False
    attention_sinks: bool = False  # a learned score that no token has, for each head
    window_size: int = 0  # tokens that each second layer sees, from the first on; 0: all
    yarn_factor: float = 0.0  # by how much RoPE is stretched; 0: not
    # Of experts, under Megatron-LM's names; `num_experts` 0: there are none.
    num_experts: int = 0
    moe_router_topk: int = 2
    moe_ffn_hidden_size: int | None = None  # by default the perceptron's width
    moe_shared_expert_intermediate_size: int = 0
    moe_router_score_function: str = "softmax"
    moe_normalised: bool = True  # weights of a token's experts add up to 1
    moe_bias: bool = False  # of router and experts, whose SwiGLU is then GPT-OSS'


GATE_WIDTH = 16  # rows of a Llama's gate that lie together, where they divide all of them


def _gpt2(num_layers: int, hidden_size: int, heads: int, seq_length: int) -> Shape:
    return Shape(num_layers, hidden_size, heads, seq_length, heads, 4 * hidden_size)


def _llama(num_layers: int, hidden_size: int, heads: int, ffn_hidden_size: int) -> Shape:
    return Shape(num_layers, hidden_size, heads, 8192, 8, ffn_hidden_size, 128256, llama=True)


def _qwen3(num_layers: int, hidden_size: int, heads: int, ffn_hidden_size: int) -> Shape:
    return Shape(
        *(num_layers, hidden_size, heads, 4096, 8, ffn_hidden_size, 151936),
        **{"llama": True, "kv_channels": 128, "rotary_base": 1e6, "norm_epsilon": 1e-6},
        qk_norm=True,
    )


def _qwen3_moe(num_layers: int) -> Shape:
    return dataclasses.replace(
        _qwen3(num_layers, 2048, 32, 6144),
        **{"num_query_groups": 4, "num_experts": 128, "moe_router_topk": 8},
        moe_ffn_hidden_size=768,
    )


def _gpt_oss(num_layers: int) -> Shape:
    return Shape(
        *(num_layers, 2880, 64, 4096, 8, 2880, 201088),
        **{"llama": True, "kv_channels": 64, "rotary_base": 150_000.0, "yarn_factor": 32.0},
        **{"attention_bias": True, "attention_sinks": True, "window_size": 128},
        **{"num_experts": 32, "moe_router_topk": 4, "moe_ffn_hidden_size": 2880, "moe_bias": True},
    )


def _mixtral(num_layers: int) -> Shape:
    return Shape(
        *(num_layers, 4096, 32, 4096, 8, 14336, 32000),
        **{"llama": True, "rotary_base": 1e6, "num_experts": 8, "moe_router_topk": 2},
    )


# gpt2-small and -medium: Radford et al. 2019, table 2.  gpt-1.3b to gpt-3.7b: the sizes of Ascend
# ModelZoo GPT-2_for_PyTorch test/train_full_8p.sh.  gpt2-tiny is ours: seconds on a CPU.
# Llama: config.json of meta-llama/Llama-3.2-1B, Llama-3.2-3B, Meta-Llama-3-8B and -70B, each with
# an output matrix of its own; debug is torchtitan's debugmodel (v0.2.2, models/llama3/__init__.py).
# config.json of Qwen/Qwen3-0.6B (which ties its output matrix, as -1.7B does), -1.7B, -8B, -32B and
# -30B-A3B, openai/gpt-oss-20b, mistralai/Mixtral-8x7B-v0.1; what ends with -layers is the beginning
# of one, with its widths, for a device that does not hold all of it. moe-debug and gpt-oss-debug
# are ours: seconds on a CPU.
MODELS = {
    "gpt2-tiny": _gpt2(4, 128, 4, 128),
    "gpt2-small": _gpt2(12, 768, 12, 1024),
    "gpt2-medium": _gpt2(24, 1024, 16, 1024),
    "gpt-1.3b": _gpt2(24, 2048, 16, 1024),
    "gpt-2.7b": _gpt2(32, 2560, 32, 2048),
    "gpt-3.7b": _gpt2(32, 3072, 32, 2048),
    "llama3-debug": Shape(6, 256, 16, 2048, 16, 768, llama=True),
    "llama3.2-1b": _llama(16, 2048, 32, 8192),
    "llama3.2-3b": _llama(28, 3072, 24, 8192),
    "llama3-8b": _llama(32, 4096, 32, 14336),
    "llama3-70b": _llama(80, 8192, 64, 28672),
    "qwen3-0.6b": _qwen3(28, 1024, 16, 3072),
    "qwen3-1.7b": _qwen3(28, 2048, 16, 6144),
    "qwen3-8b": _qwen3(36, 4096, 32, 12288),
    "qwen3-32b": _qwen3(64, 5120, 64, 25600),
    "moe-debug": Shape(
        *(4, 128, 4, 128, 2, 256),
        **{"llama": True, "kv_channels": 64, "rotary_base": 1e6, "qk_norm": True},
        **{"num_experts": 8, "moe_router_topk": 2, "moe_ffn_hidden_size": 128},
    ),
    "gpt-oss-debug": dataclasses.replace(
        _gpt_oss(4),
        **{"hidden_size": 128, "num_attention_heads": 4, "num_query_groups": 2, "seq_length": 128},
        **{"ffn_hidden_size": 128, "moe_ffn_hidden_size": 128, "window_size": 16},
        **{"num_experts": 8, "moe_router_topk": 2, "vocab_size": None},
    ),
    "qwen3-30b-a3b": _qwen3_moe(48),
    "qwen3-30b-a3b-4-layers": _qwen3_moe(4),
    "gpt-oss-20b": _gpt_oss(24),
    "gpt-oss-20b-4-layers": _gpt_oss(4),
    "mixtral-8x7b": _mixtral(32),
    "mixtral-8x7b-2-layers": _mixtral(2),
}
