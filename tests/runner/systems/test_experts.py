"""Mixtures of experts in three systems: what is refused, each by one sentence, and estimates."""

from typing import Any

import pytest

from runner.base.errors import UserError
from runner.base.paths import PROJECT
from runner.matrix.file import load_matrix
from runner.plan.checks import check_cell
from runner.systems import megatron_core, torch_gpt
from runner.systems.common import gpt
from runner.systems.common.estimates import expert_parameters
from runner.systems.common.registry import load_system
from runner.systems.common.torchtitan_models import decoder
from tests.runner.builders import one_device, small_cluster, small_matrix

OURS: dict[str, Any] = {"system": "torch_gpt", "model": "moe-debug", "devices_per_node": 8}
DENSE: dict[str, Any] = {**OURS, "model": "llama3-debug"}
TITAN: dict[str, Any] = {
    **{"system": "torchtitan", "model": "qwen3", "flavor": "30B-A3B", "devices_per_node": 8},
}
CORE: dict[str, Any] = {
    **{"system": "megatron_core", "model": "qwen3-30b-a3b", "devices_per_node": 8},
    **{"mock_data": True, "global_batch_size": 64},
}
TE: dict[str, Any] = {**CORE, "transformer_impl": "transformer_engine"}
FOLDED: dict[str, Any] = {
    **{**TE, "sequence_parallel": True, "expert_parallel": 8, "expert_tensor_parallel": 1},
}


def check(cell: dict[str, Any]) -> None:
    (made,) = small_matrix(defaults=cell).cells
    load_system(made.system).check(made, small_cluster(1, 8, device="cuda"))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({**OURS, "expert_parallel": 3}, "expert_parallel 3 does not divide num_experts 8"),
        ({**OURS, "moe_router_topk": 9}, "moe_router_topk 9 is more than num_experts 8"),
        ({**OURS, "engine": "deepspeed", "pin": "deepspeed-0.19"}, "do not go with engine deepsp"),
        ({**OURS, "precision": "fp8"}, "do not go with precision fp8; take bf16"),
        (
            {**OURS, "compile": "model", "expert_parallel": 2, "precision": "bf16"},
            "do not go with compile model with expert_parallel; set compile: block",
        ),
        ({**OURS, "moe_grouped_gemm": "grouped"}, "grouped without bf16; set precision: bf16"),
        (
            {**OURS, "routing": "balanced", "moe_router_bias_update_rate": 0.1},
            "routing balanced asks no router",
        ),
        ({**OURS, "moe_ffn_hidden_size": 24, "tensor_parallel": 2}, "moe_ffn_hidden_size / 8 3"),
        (
            {**OURS, "moe_shared_expert_intermediate_size": 48, "tensor_parallel": 2},
            "does not divide moe_shared_expert_intermediate_size / 16 3",
        ),
        ({**OURS, "kv_channels": 33}, "kv_channels 33 is an odd number"),
        ({**DENSE, "expert_parallel": 2}, "expert_parallel is for a model with experts"),
        ({**DENSE, "routing": "balanced"}, "routing is for a model with experts"),
        ({**OURS, "model": "gpt2-tiny", "num_experts": 4}, "num_experts is for a Llama"),
        ({**TITAN, "expert_parallel": 3}, "expert_parallel 3 does not divide num_experts 128"),
        ({**TITAN, "expert_parallel": 16}, "expert_parallel 16 does not divide dp_shard x"),
        ({**TITAN, "expert_tensor_parallel": 2}, "needs expert_parallel of 2 or more"),
        ({**TITAN, "flavor": "8B", "routing": "balanced"}, "8B has no experts; leave routing out"),
        (
            {**TITAN, "model": "gpt_oss", "flavor": "20b", "routing": "balanced"},
            "gpt_oss of pin 0.2.2 routes as it learned",
        ),
        (
            {**TITAN, "pin": "0.3.0", "expert_tensor_parallel": 1},
            "pin 0.3.0 has no expert_tensor_parallel",
        ),
        ({**CORE, "expert_parallel": 5}, "expert_parallel 5 does not divide num_experts 128"),
        ({**CORE, "tensor_parallel": 2}, "experts with tensor_parallel need sequence_parallel"),
        ({**CORE, "moe_grouped_gemm": True}, "moe_grouped_gemm needs kernels that local is"),
        ({**CORE, "moe_router_bias_update_rate": 0.1}, "needs moe_router_score_function sigmoid"),
        ({**TE, "expert_tensor_parallel": 5}, "5 does not divide moe_ffn_hidden_size"),
        ({**TE, "expert_parallel": 4, "expert_tensor_parallel": 4}, "does not divide data_"),
        ({**CORE, "model": "llama3-8b", "moe_grouped_gemm": True}, "for a model with experts"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(cell: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refused:
        check(cell)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_example_matrix_can_run() -> None:
    found = load_matrix(PROJECT / "matrices" / "gpu" / "moe.yaml", one_device)
    systems = [cell.system for cell in found.cells]
    assert {systems.count(name) for name in ("torchtitan", "megatron_core")} == {3}
    for cell in found.cells:
        system = load_system(cell.system)
        system.check(cell, small_cluster(1, 8, device="cuda"))
        assert system.estimate is not None
        memory = system.estimate(cell, small_cluster(1, 8, device="cuda")).memory_mib
        if cell.devices_per_node == 1:
            assert memory < 80000  # of an H100's 81,559 MiB


def test_experts_are_counted_with_their_group_and_their_zero_stage() -> None:
    def memory(**keys: int) -> float:
        cell = {
            **OURS,
            "model": "qwen3-30b-a3b",
            "precision": "bf16",
            "micro_batch_size": 1,
            **keys,
        }
        (made,) = small_matrix(defaults=cell).cells
        return torch_gpt.estimate(made, small_cluster(1, 8, device="cuda")).memory_mib

    whole, shared = memory(), memory(expert_parallel=8)
    shape = torch_gpt.shape({**dict.fromkeys(torch_gpt.SIZES), "model": "qwen3-30b-a3b"})
    assert expert_parameters(shape) == 48 * 128 * 3 * 2048 * 768
    less = expert_parameters(shape) * 16 * 7 / 8 / 2**20  # 16 bytes a weight of seven eighths
    assert whole - shared == pytest.approx(less)
    assert memory(zero_stage=3) == pytest.approx(memory(zero_stage=3, expert_parallel=8))


@pytest.mark.parametrize(
    ("model", "flavor", "named"),
    [
        ("qwen3", "30B-A3B", "qwen3-30b-a3b"),
        ("qwen3", "8B", "qwen3-8b"),
        ("gpt_oss", "20b", "gpt-oss-20b"),
        ("qwen3", "30B-A3B-4-layers", "qwen3-30b-a3b-4-layers"),
    ],
)
def test_one_name_is_one_shape_in_all_three(model: str, flavor: str, named: str) -> None:
    """What a comparison of the three counts FLOPs by."""
    titan = decoder(model, flavor, 4096)
    assert torch_gpt.shape({**dict.fromkeys(torch_gpt.SIZES), "model": named}) == titan
    if named in megatron_core.MEGATRONS:
        (found,) = small_matrix(defaults={"system": "megatron_core", "model": named}).cells
        assert gpt.shape(found.parameters) == titan


@pytest.mark.parametrize(
    "cell",
    [
        {**TITAN, "tensor_parallel": 2, "expert_parallel": 8},
        {**TITAN, "tensor_parallel": 4, "context_parallel": 2, "expert_parallel": 8},
        {**FOLDED, "tensor_parallel": 2},
        {**FOLDED, "context_parallel": 2, "sequence_parallel": False},
    ],
)
def test_expert_ranks_are_those_of_data_context_and_tensor(cell: dict[str, Any]) -> None:
    """pytorch/torchtitan#1555; Megatron core's parallel folding."""
    (made,) = small_matrix(defaults=cell).cells
    check_cell(made, small_cluster(1, 8, device="cuda"), None)


def test_our_own_trainers_experts_are_over_data_parallel_ranks_alone() -> None:
    cell = {**OURS, "expert_parallel": 8, "tensor_parallel": 2, "global_batch_size": 64}
    (made,) = small_matrix(defaults=cell).cells
    with pytest.raises(UserError, match="expert_parallel 8 does not divide data_parallel 4, whose"):
        check_cell(made, small_cluster(1, 8, device="cuda"), None)


def test_experts_that_are_folded_over_tensor_ranks_are_divided_by_their_own_ranks_alone() -> None:
    """Of Megatron core without a sharded optimizer, of torchtitan what is gathered."""

    def memory(base: dict[str, Any], **keys: Any) -> float:
        (made,) = small_matrix(defaults={**base, **keys, "micro_batch_size": 1}).cells
        cluster = small_cluster(1, 8, device="cuda")
        estimate = load_system(made.system).estimate
        assert estimate is not None
        return float(estimate(made, cluster).memory_mib)

    shape = torch_gpt.shape({**dict.fromkeys(torch_gpt.SIZES), "model": "qwen3-30b-a3b"})
    experts = expert_parameters(shape) / 2**20
    core = {**FOLDED, "tensor_parallel": 2, "distributed_optimizer": False}
    folded, over_both = memory(core), memory(core, expert_tensor_parallel=2, expert_parallel=4)
    assert folded == pytest.approx(over_both)  # an eighth of them is on each device, either way
    split = memory(core, expert_tensor_parallel=2, expert_parallel=8)
    assert folded - split == pytest.approx(experts * 16 * (1 / 8 - 1 / 16))
    titan = {**TITAN, "tensor_parallel": 2, "fsdp_reshard_after_forward": "never"}
    whole, parts = (memory(titan, expert_parallel=size) for size in (2, 8))
    assert whole - parts == pytest.approx(experts * 2 * (1 / 2 - 1 / 8))
