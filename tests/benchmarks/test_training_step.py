"""The parts of a step against sums by hand and the formula of model FLOPs."""

from dataclasses import replace

import pytest

from benchmarks.training_step import Rates, Step
from runner.figures.flops import Decoder

# B=2 s=8 l=3 h=16, 4 heads; V=128 needs no padding.
GPT = Decoder(3, 16, 4, 8, 128)
LLAMA = Decoder(3, 16, 4, 8, 128, ffn_hidden_size=48, num_query_groups=2, gated=True)
RATES = Rates(matrix=1e-9, attention=1e-9, memory=1e-9, link=1e-9)  # 1000 FLOP/s, 1 byte/s


def bytes_of(step: Step) -> dict[str, float]:
    return {part.name: part.bytes for part in step.parts()}


def test_by_hand() -> None:
    step = Step(GPT, 2)
    parts = {part.name: part for part in step.parts()}
    assert parts["qkv: forward"].flops == 2 * 16 * 16 * 48 * 3
    assert parts["qkv: forward"].bytes == 2 * (16 * 16 + 16 * 48 + 16 * 48) * 3
    assert parts["attention: forward"].flops == 4 * (8 * 8 / 2) * 16 * 2 * 3  # QK and PV, causal
    assert parts["GELU: forward"].bytes == 2 * 16 * (64 + 64) * 3
    assert parts["GELU: backward"].bytes == 2 * 16 * (64 + 64 + 64) * 3
    assert parts["q, k, v gradients joined"].bytes == 2 * 16 * (48 + 48) * 3
    assert parts["bias gradients"].bytes == 2 * 16 * (48 + 16 + 16) * 3
    assert parts["cross entropy"].bytes == 2 * 2 * 16 * 128
    weights = 3 * 12 * 16 * 16 + 128 * 16
    others = 8 * 16 + 3 * (3 * 16 + 16 + 64 + 16 + 4 * 16)  # positions; biases and layer norms
    assert step.parameters == (weights, weights + others)
    assert parts["AdamW"].bytes == 32 * (weights + others)


@pytest.mark.parametrize("model", [GPT, LLAMA])
@pytest.mark.parametrize("tensor", [1, 2])
def test_products_and_attention_are_the_model_flops(model: Decoder, tensor: int) -> None:
    step = Step(model, 2, tensor_parallel=tensor)
    products = sum(part.flops for part in step.matrix_products())
    forward, _ = step.attention()
    # The formula has twice the forward pass's backward; the kernels compute QK once more.
    assert tensor * (products + 3 * forward.flops) == pytest.approx(2 * model.flops(causal=True))


def test_a_floor_is_the_sum_or_what_runs_beside() -> None:
    alone, two = Step(GPT, 2), Step(GPT, 2, data_parallel=2)
    expected = sum(max(part.flops / 1e3, part.bytes) for part in alone.parts())
    assert alone.floor(RATES) == pytest.approx(expected)
    assert two.floor(RATES) == pytest.approx(expected)
    sent = 8 * two.parameters[1] / 2  # an all-reduce of fp32
    assert two.floor(replace(RATES, link=1e-12)) == pytest.approx(1e3 * sent)


def test_what_is_shared_out() -> None:
    one = Step(LLAMA, 2)
    three = bytes_of(Step(LLAMA, 2, data_parallel=2, zero_stage=3))
    assert three["AdamW"] == bytes_of(one)["AdamW"] / 2
    tensor = {part.name: part for part in Step(GPT, 2, tensor_parallel=2).parts()}
    assert tensor["tensor parallel collectives"].link == 8 * 3 * 2 * 16 * 16 / 2
    assert tensor["GELU: forward"].bytes == bytes_of(Step(GPT, 2))["GELU: forward"] / 2


def test_figures_are_those_of_the_tables() -> None:
    figures = Step(GPT, 2).figures(RATES)
    seconds = figures["floor, ms"] / 1e3
    assert figures["samples/s"] == pytest.approx(2 / seconds)
    assert figures["MFU, %"] == pytest.approx(100 * 2 * GPT.flops() / seconds / 989.5e12)


def test_a_part_that_was_measured_has_its_own_rate() -> None:
    part = Step(GPT, 2).matrix_products()[0]
    rates = replace(RATES, memory=1.0)
    measured = replace(rates, parts={part.name: 2e-9})
    assert measured.seconds(part) == pytest.approx(rates.seconds(part) / 2)
