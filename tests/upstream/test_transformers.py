"""torch_gpt's Qwen3-MoE, Mixtral, GPT-OSS and Qwen3 beside Hugging Face's, with the same weights.

Needs the package transformers, which no environment of ours has: `pip install transformers`.
"""

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip(
    "transformers", reason="a comparison with a package that nothing else here needs"
)

ROOT = Path(__file__).parents[2]
sys.path[:0] = [
    str(ROOT / "roles" / "torch_gpt" / "files" / "torch_gpt"),
    str(ROOT / "node" / "dataset"),
]
arguments, model = (importlib.import_module(name) for name in ("arguments", "model"))

LAYERS, HIDDEN, HEADS, GROUPS, SIZE, FFN, EXPERTS, TOPK = 4, 64, 4, 2, 32, 48, 8, 2
VOCABULARY, SEQ = 128, 48
SHAPE = (
    *("--num-layers", str(LAYERS), "--hidden-size", str(HIDDEN), "--seq-length", str(SEQ)),
    *("--num-attention-heads", str(HEADS), "--num-query-groups", str(GROUPS)),
    *("--kv-channels", str(SIZE), "--ffn-hidden-size", str(FFN)),
)
WITH_EXPERTS = ("--moe-ffn-hidden-size", str(FFN), "--moe-router-topk", str(TOPK))
COMMON: dict[str, Any] = {
    **{"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS},
    **{"num_key_value_heads": GROUPS, "head_dim": SIZE, "intermediate_size": FFN},
    **{"vocab_size": VOCABULARY, "tie_word_embeddings": False, "attn_implementation": "eager"},
}
THEIRS: dict[str, Any] = {
    "qwen3-30b-a3b": lambda: transformers.Qwen3MoeConfig(
        **COMMON,
        **{"moe_intermediate_size": FFN, "num_experts": EXPERTS, "num_experts_per_tok": TOPK},
        norm_topk_prob=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
    "qwen3-8b": lambda: transformers.Qwen3Config(
        **COMMON, rope_parameters={"rope_type": "default", "rope_theta": 1e6}
    ),
    "mixtral-8x7b": lambda: transformers.MixtralConfig(
        **COMMON,
        **{"num_local_experts": EXPERTS, "num_experts_per_tok": TOPK, "sliding_window": None},
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    ),
    "gpt-oss-debug": lambda: transformers.GptOssConfig(
        **COMMON,
        **{"num_local_experts": EXPERTS, "num_experts_per_tok": TOPK, "sliding_window": 16},
        layer_types=["sliding_attention", "full_attention"] * (LAYERS // 2),
        rms_norm_eps=1e-5,
        rope_parameters={
            **{"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0},
            **{"beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096},
        },
    ),
}


def by_turns(gate: Any, up: Any) -> Any:
    """Rows that gate and that are gated, in the order in which ours lie."""
    width = math.gcd(FFN, 16)
    parts = tuple(part.unflatten(-2, (-1, width)) for part in (gate, up))
    return torch.stack(parts, -3).flatten(-4, -2)


def grouped(query: Any, key: Any, value: Any) -> Any:
    """Rows of queries, keys and values, group by group."""
    rest = query.shape[1:]
    parts = (part.view(GROUPS, -1, *rest) for part in (query, key, value))
    return torch.cat(tuple(parts), 1).flatten(0, 1)


def converted(theirs: Any) -> dict[str, Any]:
    """Their weights under our names."""
    ours = {
        "token_embedding.weight": theirs["model.embed_tokens.weight"],
        "norm.weight": theirs["model.norm.weight"],
        "output.weight": theirs["lm_head.weight"],
    }
    for number in range(LAYERS):
        at, to = f"model.layers.{number}.", f"blocks.{number}."
        layer = {key.removeprefix(at): each for key, each in theirs.items() if key.startswith(at)}
        for kind in ("weight", "bias"):
            if f"self_attn.q_proj.{kind}" in layer:
                parts = (layer[f"self_attn.{name}_proj.{kind}"] for name in "qkv")
                ours[f"{to}qkv.{kind}"] = grouped(*parts)
        names = {
            "input_layernorm.weight": "norm_1.weight",
            "post_attention_layernorm.weight": "norm_2.weight",
            "self_attn.q_norm.weight": "query_norm.weight",
            "self_attn.k_norm.weight": "key_norm.weight",
            "self_attn.o_proj.weight": "attention_out.weight",
            "self_attn.o_proj.bias": "attention_bias",
            "self_attn.sinks": "sinks.bias",
            "mlp.gate.weight": "moe.router.weight",
            "mlp.router.weight": "moe.router.weight",
            "mlp.router.bias": "moe.router.bias",
            "mlp.down_proj.weight": "mlp_out.weight",
        }
        ours |= {to + new: layer[old] for old, new in names.items() if old in layer}
        if "mlp.gate_proj.weight" in layer:
            pair = (layer[f"mlp.{name}_proj.weight"] for name in ("gate", "up"))
            ours[f"{to}mlp_in.weight"] = by_turns(*pair)
        if "mlp.experts.gate_up_proj" in layer:
            both, down = layer["mlp.experts.gate_up_proj"], layer["mlp.experts.down_proj"]
            if "mlp.experts.gate_up_proj_bias" in layer:  # GPT-OSS': by columns, one by one
                both, down = both.transpose(1, 2), down.transpose(1, 2)
                bias = layer["mlp.experts.gate_up_proj_bias"]
                turned = by_turns(bias[:, ::2, None], bias[:, 1::2, None])[..., 0]
                ours[f"{to}moe.experts.expert_in.bias"] = turned
                ours[f"{to}moe.experts.expert_out.bias"] = layer["mlp.experts.down_proj_bias"]
                halves = both[:, ::2], both[:, 1::2]
            else:
                halves = both.chunk(2, 1)
            ours[f"{to}moe.experts.expert_in.weight"] = by_turns(*halves)
            ours[f"{to}moe.experts.expert_out.weight"] = down
    return ours


@pytest.mark.parametrize("name", THEIRS)
def test_logits_are_those_of_hugging_face(name: str) -> None:
    torch.manual_seed(1)
    config = THEIRS[name]()
    theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for each in theirs.parameters():
            each.normal_(0, 0.15)
    words = (*WITH_EXPERTS, "--num-experts", str(EXPERTS)) if "8b" not in name else ()
    options = arguments.parse(["--data-path", "x", "--model", name, *SHAPE, *words])
    options.moe_grouped_gemm = "loop"
    ours = model.Decoder(options, VOCABULARY)
    options_window = {block.window for block in ours.blocks.values()}
    assert options_window == ({0, 16} if name == "gpt-oss-debug" else {0})
    missing, unknown = ours.load_state_dict(converted(theirs.state_dict()), strict=False)
    assert (unknown, {each.rpartition(".")[2] for each in missing}) in (
        ([], set()),
        ([], {"expert_bias"}),
    )
    ours.prepare(torch.device("cpu"))
    tokens = torch.randint(VOCABULARY, (2, SEQ))
    with torch.no_grad():
        logits = ours.norm(ours(tokens)) @ ours.output.weight.T
        expected = theirs(tokens).logits.flatten(0, 1)
    torch.testing.assert_close(logits, expected, rtol=2e-4, atol=2e-4)
