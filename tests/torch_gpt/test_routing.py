"""The layer of experts by itself: ties, turns, balance, and attention with windows and sinks."""

import importlib
from typing import Any

import pytest

from tests.torch_gpt.test_arguments import options

torch = pytest.importorskip("torch")
experts, windows = (importlib.import_module(name) for name in ("experts", "windows"))
GROUPS = importlib.import_module("tensor_group").TensorGroup(), experts.ExpertGroup()


def layer(*words: str) -> Any:
    torch.manual_seed(0)
    made = options(
        "--model", "moe-debug", "--hidden-size", "32", "--moe-ffn-hidden-size", "16", *words
    )
    made.moe_grouped_gemm = "loop"
    moe = experts.MixtureOfExperts(made, *GROUPS)
    with torch.no_grad():
        for parameter in moe.parameters():
            parameter.normal_(0, 0.3)
    moe.prepare(torch.device("cpu"))
    return moe


def test_a_tie_that_flips_is_another_model_and_no_rounding() -> None:
    """Why parity leaves such tokens out: a change below fp32's rounding moves the output by far
    more than the tolerance of 2e-4.
    """
    moe = layer("--moe-router-topk", "1")
    x = torch.randn(64, 32)
    with torch.no_grad():
        moe.router.weight[1] = moe.router.weight[0]  # as good for every token
        before = moe(x)[0]
        moe.expert_bias[1] = 1e-7
        first = moe.route(x).chosen
        moe.expert_bias[1], moe.expert_bias[0] = 0.0, 1e-7
        other = moe.route(x).chosen
        flipped = (first != other).any(1)
        after = moe(x)[0]
    assert flipped.any()
    assert not flipped.all()
    assert (after - before).abs().amax(1)[~flipped].max() < 1e-5  # the others are as they were
    with torch.no_grad():
        moe.expert_bias[1], moe.expert_bias[0] = 1e-7, 0.0
        swapped = moe(x)[0]
    assert (swapped - after).abs().amax(1)[flipped].min() > 2e-4


def test_balanced_routing_gives_each_expert_as_many_tokens() -> None:
    moe = layer("--routing", "balanced")
    made = moe.route(torch.randn(64, 32))
    assert made.counts.tolist() == [16] * 8
    assert made.chosen[:4].flatten().tolist() == list(range(8))


def test_the_auxiliary_loss_is_1_in_balance_and_the_experts_where_one_has_all() -> None:
    moe = layer("--moe-router-topk", "1")
    even, one = torch.full((16, 8), 1 / 8), torch.eye(8)[torch.zeros(16, dtype=torch.long)]
    assert moe.auxiliary(even, torch.full((8,), 2)).item() == pytest.approx(1)
    counts = torch.tensor([16] + [0] * 7)
    assert moe.auxiliary(one, counts).item() == pytest.approx(8)


def test_grouped_products_are_those_of_the_loop() -> None:
    """In bf16, also of experts without a token."""
    matrices = experts.Matrices(4, 32, 48, bias=False).to(torch.bfloat16)
    torch.manual_seed(0)
    with torch.no_grad():
        matrices.weight.normal_()
    x, counts = torch.randn(24, 32, dtype=torch.bfloat16), torch.tensor([7, 0, 16, 1])
    torch.testing.assert_close(matrices(x, counts, True), matrices(x, counts, False))


@pytest.mark.parametrize("window", [0, 3])
def test_windows_and_sinks_are_the_formula(window: int) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 9, 4, 8), torch.randn(2, 9, 2, 8), torch.randn(2, 9, 2, 8)
    sinks = torch.randn(4)
    expected = torch.zeros(2, 9, 4, 8)
    for sample in range(2):
        for head in range(4):
            for at in range(9):
                since = max(0, at - window + 1) if window else 0
                keys = key[sample, since : at + 1, head // 2]
                scores = keys @ query[sample, at, head] / 8**0.5
                weights = torch.cat((scores, sinks[head : head + 1])).softmax(0)[:-1]
                expected[sample, at, head] = weights @ value[sample, since : at + 1, head // 2]
    found = windows.attend_window(query, key, value, window, sinks)
    torch.testing.assert_close(found, expected.view(18, 32))
