"""The FLOP formulas against published figures and a calculation by hand."""

import pytest

from runner.figures.flops import (
    HARDWARE_FLOPS,
    MODEL_FLOPS,
    Gpt,
    tflop_per_s_per_device,
    vocabulary,
)
from runner.terms.record import Measurement

A100_PEAK_TFLOP_PER_S = 312


def gpt(layers: int, hidden: int, seq: int = 2048, vocab: int = 51200) -> Gpt:
    return Gpt(layers, hidden, 16, seq, vocab)


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


def test_formulas_are_named_apart_and_cited() -> None:
    assert MODEL_FLOPS.id == "megatron-model-flops"
    assert HARDWARE_FLOPS.id != MODEL_FLOPS.id
    assert "2104.04473" in MODEL_FLOPS.source


def megatron_core_0_5(shape: Gpt, batch: int, vocab: int) -> float:
    """NVIDIA/Megatron-LM core_v0.5.0, megatron/training.py:62-78, without grouped queries."""
    s, layers, h = shape.seq_length, shape.num_layers, shape.hidden_size
    return 60 * batch * s * layers * h * h * (1 + 1 / 5 + s / (5 * h) + vocab / (10 * layers * h))


def megatron_core_0_13(shape: Gpt, batch: int, vocab: int) -> float:
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
