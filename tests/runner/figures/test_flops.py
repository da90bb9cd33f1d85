"""The FLOP formulas against published figures and a calculation by hand."""

import pytest

from runner.figures.flops import (
    MODEL_FLOPS,
    Decoder,
    tflop_per_s_per_device,
    vocabulary,
)
from runner.terms.record import Measurement

A100_PEAK_TFLOP_PER_S = 312


def gpt(layers: int, hidden: int, seq: int = 2048, vocab: int = 51200) -> Decoder:
    return Decoder(layers, hidden, 16, seq, vocab)


def test_by_hand() -> None:
    # B=2 s=4 l=3 h=8 V=10: layers 72*2*4*3*64*(1+4/48) = 119808, logits 6*2*4*8*10 = 3840.
    shape = gpt(3, 8, 4, 10)
    assert 2 * shape.flops() == pytest.approx(119808 + 3840)
    assert 2 * shape.flops(recompute=True) == pytest.approx(119808 * 4 / 3 + 3840)


@pytest.mark.parametrize(("recompute", "factor", "logits"), [(False, 72, 12), (True, 96, 16)])
def test_is_the_published_equation(recompute: bool, factor: int, logits: int) -> None:
    batch, s, layers, h, v = 1536, 2048, 96, 12288, 51200
    published = factor * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (logits * layers * h))
    got = batch * gpt(layers, h).flops(recompute=recompute)
    assert got == pytest.approx(published)


@pytest.mark.parametrize(
    ("layers", "hidden", "batch", "devices", "seconds", "percent_of_peak"),
    [
        # Korthikanti et al. 2022, arXiv:2205.05198, table 5: "present work", model FLOPs.
        (48, 6144, 4, 8, 1.10, 41.5),  # 22B; the time is rounded to 1 %
        (96, 12288, 64, 64, 13.75, 51.4),  # 175B
        (105, 20480, 280, 280, 37.83, 56.0),  # 530B
        (128, 25600, 512, 512, 71.49, 56.3),  # 1T
    ],
)
def test_model_flops_give_the_published_utilisation(
    layers: int, hidden: int, batch: int, devices: int, seconds: float, percent_of_peak: float
) -> None:
    got = tflop_per_s_per_device(gpt(layers, hidden), batch / seconds, devices)
    assert got / A100_PEAK_TFLOP_PER_S * 100 == pytest.approx(percent_of_peak, abs=0.2)


@pytest.mark.parametrize(("sequences_per_s", "published"), [(4.31, 43.26), (4.92, 49.38)])
def test_hardware_flops_give_dlperfs_figures(sequences_per_s: float, published: float) -> None:
    # DLPerf GPT report of 2021-05-12, DP_1x1x1_2_1536x16 on one V100: Megatron-LM, OneFlow.
    got = tflop_per_s_per_device(gpt(16, 1536), sequences_per_s, 1, recompute=True)
    assert got == pytest.approx(published, abs=0.005)


def test_gpt3_trains_in_about_34_days() -> None:
    # Narayanan et al. 2021, section 5.1: 300e9 tokens, 1024 A100 at 140 TFLOP/s each, 34 days.
    iterations = 300e9 / (1536 * 2048)
    flops = 1536 * gpt(96, 12288).flops(recompute=True)
    assert iterations * flops / (1024 * 140e12) / 86400 == pytest.approx(34, abs=1)


def test_padded_vocabulary_where_it_is_known() -> None:
    shape = gpt(2, 64, 128, 50257)
    assert vocabulary(shape, Measurement()) == (50257, "unpadded")
    assert vocabulary(shape, Measurement(padded_vocab_size=50304)) == (50304, "padded")
    more = shape.flops(vocab_size=50304) - shape.flops()
    assert more == pytest.approx(6 * 128 * 64 * (50304 - 50257))


def test_no_devices_is_refused() -> None:
    with pytest.raises(ValueError, match="devices must be positive"):
        tflop_per_s_per_device(gpt(2, 64), 1.0, 0)


def test_the_formula_is_named_and_cited() -> None:
    assert MODEL_FLOPS.id == "model-flops"
    assert "2204.02311" in MODEL_FLOPS.source


def megatron_core_0_5(shape: Decoder, batch: int, vocab: int) -> float:
    """NVIDIA/Megatron-LM core_v0.5.0, megatron/training.py:62-78, without grouped queries."""
    s, layers, h = shape.seq_length, shape.num_layers, shape.hidden_size
    return 60 * batch * s * layers * h * h * (1 + 1 / 5 + s / (5 * h) + vocab / (10 * layers * h))


def megatron_core_0_13(shape: Decoder, batch: int, vocab: int) -> float:
    """core_v0.13.0, megatron/training/training.py:transformer_flops for a dense GPT, expanded.

    Since core_v0.12.0 the attention scores count half, for the causal mask.
    """
    s, layers, h = shape.seq_length, shape.num_layers, shape.hidden_size
    mlp, attention, logits = 2 * 4 * h, 2 * h + 2 * h + s / 2 * 2, h * vocab
    return batch * s * (layers * 6 * h * (mlp + attention) + 6 * logits)


@pytest.mark.parametrize("layers", [2, 24, 96])
def test_model_flops_are_what_megatron_itself_computed_until_core_0_11(layers: int) -> None:
    shape = gpt(layers, 1024)
    ours = 8 * shape.flops()
    assert ours == pytest.approx(megatron_core_0_5(shape, 8, shape.vocab_size))
    scores = 6 * 8 * shape.seq_length**2 * shape.hidden_size * layers
    assert ours - scores == pytest.approx(megatron_core_0_13(shape, 8, shape.vocab_size))


# --- other models, by other tools -----------------------------------------------------------------

LLAMA = {"num_query_groups": 8, "gated": True}
LLAMA_8B = Decoder(32, 4096, 32, 8192, 128256, ffn_hidden_size=14336, **LLAMA)  # type: ignore[arg-type]
LLAMA_405B = Decoder(126, 16384, 128, 8192, 128256, ffn_hidden_size=53248, **LLAMA)  # type: ignore[arg-type]
QWEN3_30B_A3B = Decoder(
    *(48, 2048, 32, 4096, 151936),
    num_query_groups=4,
    kv_channels=128,
    gated=True,
    moe_layers=48,
    num_experts=128,
    moe_router_topk=8,
    moe_ffn_hidden_size=768,
)
GPT3_5B = Decoder(24, 4096, 32, 2048, 50304)


@pytest.mark.parametrize(
    ("model", "causal", "tokens_per_s", "tflop_per_s"),
    [
        # torchtitan#1884, one of the pairs that it printed.
        (LLAMA_8B, False, 5615, 325.20),
        # NeMo 24.12's page of performance, FP8 on H100.
        (LLAMA_8B, False, 12273, 711),
        (GPT3_5B, False, 23406, 765),
        # Megatron-Bridge's, 25.11 and 26.04.01.
        (LLAMA_8B, True, 14451, 744),
        (LLAMA_405B, True, 328, 827),
    ],
)
def test_the_pairs_of_speeds_that_other_tools_print(
    model: Decoder, causal: bool, tokens_per_s: float, tflop_per_s: float
) -> None:
    """A device's tokens/s and TFLOP/s, printed side by side, are one figure of FLOPs a token."""
    ours = model.flops(causal=causal) / model.seq_length
    assert ours == pytest.approx(tflop_per_s * 1e12 / tokens_per_s, rel=0.002)


def test_the_two_ways_to_count_attention_differ_by_an_eighth_for_llama_3_8b() -> None:
    full, half = (LLAMA_8B.flops(causal=causal) / 8192 for causal in (False, True))
    assert full == pytest.approx(57.9e9, rel=0.001)
    assert half == pytest.approx(51.5e9, rel=0.001)


def torchtitan(model: Decoder, weights: int) -> float:
    """torchtitan b5bcd76, torchtitan/models/utils.py:get_dense_model_nparams_and_flops, a token.

    `weights` are all parameters but the embedding, norms among them; head_dims is twice a head.
    """
    size = 2 * model.hidden_size // model.num_attention_heads
    return 6 * weights + 6 * model.num_layers * model.num_attention_heads * size * model.seq_length


def test_llama_is_torchtitans_count_but_for_norms() -> None:
    weights = 8_030_261_248 - 128256 * 4096
    assert LLAMA_8B.flops() / 8192 == pytest.approx(torchtitan(LLAMA_8B, weights), rel=1e-4)


def megatron_core_0_11(m: Decoder) -> float:
    """NVIDIA/Megatron-LM core_v0.11.0, megatron/training/training.py:118-170, of one sample."""
    heads, groups = m.num_attention_heads, m.num_query_groups or m.num_attention_heads
    h, size = m.hidden_size, m.kv_channels or m.hidden_size / heads
    ratio = size * heads / h
    gated = 3 / 2 if m.gated else 1
    if m.moe_layers:
        mlp, topk = m.moe_ffn_hidden_size, m.moe_router_topk
    else:
        mlp, topk = m.ffn_hidden_size or 4 * h, 1
    attention = (1 + groups / heads + m.seq_length / h) * ratio
    logits = m.vocab_size / (2 * m.num_layers * h)
    inside = attention + mlp / h * topk * gated + logits
    return 12 * m.seq_length * m.num_layers * h * h * inside


def megatron_bridge(m: Decoder) -> float:
    """NVIDIA-NeMo/Megatron-Bridge 067f987, flop_utils.py:transformer_flops, of one sample.

    The same as Megatron-LM's since core_v0.12.0 (megatron/training/training.py:132).
    """
    h, heads = m.hidden_size, m.num_attention_heads
    size = m.kv_channels or h // heads
    query, key = size * heads, size * (m.num_query_groups or heads)
    matrices = 3 if m.gated else 2
    linear = 6 * (h * (query + 2 * key) + query * h) * m.num_layers
    core = 6 * query / 2 * 2 * m.num_layers
    dense = (m.ffn_hidden_size or 4 * h) * matrices * (m.num_layers - m.moe_layers)
    routed = m.moe_ffn_hidden_size * m.moe_router_topk * matrices * m.moe_layers
    s = m.seq_length
    return s * (6 * h * (dense + routed) + linear + 6 * h * m.vocab_size) + s * s * core


def router(model: Decoder) -> float:
    """What the choice of experts costs a sample: torchtitan counts it, Megatron does not."""
    return 6 * model.seq_length * model.hidden_size * model.num_experts * model.moe_layers


@pytest.mark.parametrize("model", [LLAMA_8B, LLAMA_405B, QWEN3_30B_A3B, GPT3_5B])
def test_megatrons_own_functions_give_the_same(model: Decoder) -> None:
    assert model.flops() - router(model) == pytest.approx(megatron_core_0_11(model), rel=1e-9)
    causal = model.flops(causal=True) - router(model)
    assert causal == pytest.approx(megatron_bridge(model), rel=1e-9)


def test_of_a_mixture_of_experts_the_active_weights_count() -> None:
    # Megatron-Bridge 26.04.01: Qwen3 30B-A3B, 8,960 tokens/s and 206 TFLOP/s: rounded to 0.25 %.
    ours = QWEN3_30B_A3B.flops(causal=True) - router(QWEN3_30B_A3B)
    assert ours / 4096 == pytest.approx(206e12 / 8960, rel=0.0025)
    dense = Decoder(48, 2048, 32, 4096, 151936, 128 * 768, 4, 128, gated=True)
    assert QWEN3_30B_A3B.flops() < dense.flops() / 5
