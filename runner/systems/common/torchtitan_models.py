"""The models of torchtitan: what each flavor of its own registry is, by that name.

Read from torchtitan 0.2.2 (73a0e697, torchtitan/models): llama3/__init__.py:30-100,
qwen3/__init__.py:31-180, gpt_oss/__init__.py:28-80, deepseek_v3/__init__.py:29-175, and
model/args.py of each for what these leave out. Of the width of a Llama's MLP
(llama3/model/model.py, FeedForward) it is the outcome.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runner.figures.flops import Decoder, LatentDecoder

LLAMA_VOCAB_SIZE, QWEN_VOCAB_SIZE, DEBUG_VOCAB_SIZE = 128256, 151936, 2048


def _llama(layers: int, hidden: int, heads: int, ffn: int, **overrides: Any) -> Decoder:
    options: dict[str, Any] = {"num_query_groups": 8, "vocab_size": LLAMA_VOCAB_SIZE, **overrides}
    return Decoder(layers, hidden, heads, 0, ffn_hidden_size=ffn, gated=True, **options)


def _qwen(layers: int, hidden: int, heads: int, ffn: int, **overrides: Any) -> Decoder:
    return _llama(
        layers,
        hidden,
        heads,
        ffn,
        **{"vocab_size": QWEN_VOCAB_SIZE, "kv_channels": 128, **overrides},
    )


def _experts(model: Decoder, experts: int, topk: int, ffn: int) -> Decoder:
    return replace(
        model,
        moe_layers=model.num_layers,
        num_experts=experts,
        moe_router_topk=topk,
        moe_ffn_hidden_size=ffn,
    )


def _gpt_oss(layers: int, experts: int, **overrides: Any) -> Decoder:
    sizes: dict[str, Any] = {"hidden": 2880, "vocab_size": 201088, **overrides}
    shape = _llama(layers, sizes.pop("hidden"), 64, 2880, kv_channels=64, **sizes)
    return _experts(shape, experts, 4, 2880)


def _deepseek_size(
    layers: int, hidden: int, heads: int, ffn: int, vocab: int, rank: int = 0
) -> LatentDecoder:
    return LatentDecoder(
        layers,
        hidden,
        heads,
        0,
        vocab,
        ffn_hidden_size=ffn,
        gated=True,
        q_lora_rank=rank,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    )


def _deepseek(
    size: LatentDecoder, experts: int, topk: int, ffn: int, shared: int = 2, dense: int = 1
) -> Decoder:
    return replace(
        _experts(size, experts, topk, ffn),
        moe_layers=size.num_layers - dense,
        moe_shared_expert_intermediate_size=shared * ffn,
    )


@dataclass(frozen=True)
class Model:
    """A model of torchtitan's registry: its flavors without a sequence length, and what it can do.

    `pipelines`: it can be split into stages; `contexts`: its samples can.
    """

    flavors: Mapping[str, Decoder]
    pipelines: bool = True
    contexts: bool = True


MODELS: Mapping[str, Model] = {
    "llama3": Model(
        {
            "debugmodel": _llama(
                6, 256, 16, 768, num_query_groups=None, vocab_size=DEBUG_VOCAB_SIZE
            ),
            "1B": _llama(16, 2048, 32, 8192),
            "8B": _llama(32, 4096, 32, 14336),
            "70B": _llama(80, 8192, 64, 28672),
            "405B": _llama(126, 16384, 128, 53248),
        }
    ),
    "qwen3": Model(
        {
            "debugmodel": _qwen(8, 256, 16, 3072, vocab_size=DEBUG_VOCAB_SIZE),
            "debugmodel_moe": _experts(
                _qwen(8, 256, 16, 3072, vocab_size=DEBUG_VOCAB_SIZE), 64, 8, 768
            ),
            "0.6B": _qwen(28, 1024, 16, 3072),
            "1.7B": _qwen(28, 2048, 16, 6144),
            "4B": _qwen(36, 2560, 32, 9728),
            "8B": _qwen(36, 4096, 32, 12288),
            "14B": _qwen(40, 5120, 40, 17408),
            "32B": _qwen(64, 5120, 64, 25600),
            "30B-A3B": _experts(_qwen(48, 2048, 32, 6144, num_query_groups=4), 128, 8, 768),
            "30B-A3B-4-layers": _experts(_qwen(4, 2048, 32, 6144, num_query_groups=4), 128, 8, 768),
            "235B-A22B": _experts(_qwen(94, 4096, 64, 12288, num_query_groups=4), 128, 8, 1536),
        },
        pipelines=False,
    ),
    "gpt_oss": Model(
        {
            "debugmodel": _gpt_oss(4, 8, hidden=256),
            "20b": _gpt_oss(24, 32),
            "20b-4-layers": _gpt_oss(4, 32),
            "120b": _gpt_oss(36, 128),
        },
        pipelines=False,
        contexts=False,
    ),
    "deepseek_v3": Model(
        {
            "debugmodel": _deepseek(
                _deepseek_size(6, 256, 16, 1024, DEBUG_VOCAB_SIZE), experts=8, topk=3, ffn=256
            ),
            "16B": _deepseek(
                _deepseek_size(27, 2048, 16, 10944, 102400), experts=64, topk=6, ffn=1408
            ),
            "236B": _deepseek(
                _deepseek_size(60, 5120, 128, 12288, 102400, 1536), experts=160, topk=6, ffn=1536
            ),
            "671B": _deepseek(
                _deepseek_size(61, 7168, 128, 18432, 129280, 1536),
                **{"experts": 256, "topk": 8, "ffn": 2048, "shared": 1, "dense": 3},
            ),
        }
    ),
}
FLAVORS = tuple(dict.fromkeys(name for model in MODELS.values() for name in model.flavors))


def decoder(model: str, flavor: str, seq_length: int) -> Decoder | None:
    """Return the architecture of a flavor with samples of that many tokens, or None."""
    flavor_shape = MODELS[model].flavors.get(flavor)
    return flavor_shape and replace(flavor_shape, seq_length=seq_length)
